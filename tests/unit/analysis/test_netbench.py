"""Netbench: durations of the slowest rank, half of round trips, rates, what is missing, what cannot be."""

import pytest

from orchestrator.analysis.analyse import analyse
from orchestrator.domain.value.failure import FailureKind
from orchestrator.domain.value.measurement import Analysis, Grade
from tests.unit.analysis.logs import NODE, a_job, closed, quiet

MODEL = {"name": "netbench", "measures": "exchange", "work_unit": "bytes", "loss": "any"}


def reported(rank=0, operation="point_to_point", size=4, durations=(2e-4, 4e-4, 6e-4), busy=False, ranks=(0, 1)):
    data = {
        "operation": operation,
        "library": "gloo",
        "bytes": size,
        "world_size": 2,
        "ranks": list(ranks),
        "busy_cores": busy,
        "repetitions": len(durations),
        "ways": 2 if operation == "point_to_point" else 1,
        "duration_s": list(durations),
    }
    return "exchange", rank, data


def reduced(size=4, durations=((1.0, 2.0), (2.0, 1.0)), busy=False):
    return [reported(rank, "all_reduce", size, own, busy) for rank, own in enumerate(durations)]


def a_netbench(*exchanges, skipped=(), foreign_s=0.0, finished=(0, 1), together=False):
    """The log of a netbench of two ranks on one node. ``together``: of one process."""
    job = a_job(ranks=2, model=MODEL)
    if together:
        first, second = job["processes"]
        job["processes"] = [first | {"ranks": [0, 1], "devices": first["devices"] + second["devices"]}]
    leading = [min(process["ranks"]) for process in job["processes"]]
    events = [("joined", rank, {"world_size": 2}) for rank in leading]
    values = {("core_active_s", "core:0"): 0.32 + foreign_s}
    readings = [("reading", None, {"window_s": 0.5, "values": quiet(values=values)})] * 3
    events += [exchanges[0], *readings, *exchanges[1:]] if exchanges else []
    events += [("stopped", rank, {"step": 6, "reason": "max_steps", "skipped": list(skipped)}) for rank in leading]
    events += [("finished", rank, {"steps": 6, "weights_sha256": None}) for rank in finished]
    opened = {"protocol": 1, "attempt_id": "attempt-1", "run_id": "run-1", "node": NODE, "job": job}
    opened |= {"inventory": {"cores": [0, 1]}, "provenance": {}}
    all_events = [("log_opened", None, opened), *events]
    return closed(
        [
            {"t": 100.0 + 0.5 * n, "wall": 1e9 + n, "kind": kind, "rank": rank, "data": data}
            for n, (kind, rank, data) in enumerate(all_events)
        ]
    )


def analysed(*exchanges, **changes) -> Analysis:
    return analyse({NODE: a_netbench(*exchanges, **changes)})


def test_a_message_takes_half_of_its_round_trip() -> None:
    (point, _) = analysed(reported(size=4), *reduced()).transfers
    assert (point.operation, point.library, point.bytes, point.ranks) == ("point_to_point", "gloo", 4, (0, 1))
    assert point.duration_p50_s == pytest.approx(2e-4)
    assert (point.duration_min_s, point.duration_max_s) == pytest.approx((1e-4, 3e-4))
    assert point.duration_mean_s == pytest.approx(2e-4)
    assert point.repetitions == 3
    assert point.algorithm_bytes_per_s == point.bus_bytes_per_s == pytest.approx(4 / 2e-4)


def test_an_all_reduce_takes_as_long_as_its_slowest_rank() -> None:
    (_, row) = analysed(reported(), *reduced(2**20, ((1.0, 3.0, 2.0), (2.0, 1.0, 2.0)))).transfers
    assert (row.duration_min_s, row.duration_p50_s, row.duration_max_s) == (2.0, 2.0, 3.0)


@pytest.mark.parametrize(("ranks", "factor"), [(2, 1.0), (4, 1.5), (8, 1.75)])
def test_the_bus_carries_2_n_minus_1_over_n_times_the_bytes_of_an_all_reduce(ranks: int, factor: float) -> None:
    from orchestrator.analysis.probe.netbench import Case, _transfer

    case = Case(False, "all_reduce", "gloo", tuple(range(ranks)), 1000, ranks, 1)
    row = _transfer(case, {rank: [0.5] for rank in range(ranks)})
    assert row.algorithm_bytes_per_s == 2000
    assert row.bus_bytes_per_s == pytest.approx(2000 * factor)


def test_the_summary_has_the_latency_of_the_smallest_and_the_rate_of_the_largest_message() -> None:
    analysis = analysed(
        reported(size=4, durations=[2e-4]),
        reported(size=2**20, durations=[0.02]),
        *reduced(2**20, ([0.05], [0.04])),
        reported(size=2**20, durations=[9.0], busy=True),
    )
    assert analysis.validity.sound, analysis.validity
    assert analysis.summary["latency_s"] == pytest.approx(1e-4)
    assert analysis.summary["point_to_point_bytes_per_s"] == pytest.approx(2**20 / 0.01)
    assert analysis.summary["all_reduce_bus_bytes_per_s"] == pytest.approx(2**20 / 0.05)
    assert analysis.summary["exchanges"] == 4


def test_an_analysis_comes_back_from_its_json() -> None:
    analysis = analysed(reported(), *reduced())
    assert Analysis.from_json(analysis.to_json()) == analysis


def test_a_rank_that_reports_nothing_spoils_the_run() -> None:
    analysis = analysed(reported(), reduced()[0])
    assert [reason.code for reason in analysis.validity.reasons] == ["exchanges_missing"]
    assert analysis.transfers == ()


def test_a_process_reports_for_all_ranks_that_it_drives() -> None:
    rows = analysed(
        reported(0, "push", 8), reported(0, "all_reduce", 8), reported(0, "push", 4), together=True
    ).transfers
    assert [(row.operation, row.bytes, row.ranks) for row in rows] == [
        ("push", 4, (0, 1)),
        ("push", 8, (0, 1)),
        ("all_reduce", 8, (0, 1)),
    ]
    assert rows[0].bus_bytes_per_s == rows[0].algorithm_bytes_per_s


def test_ranks_that_count_differently_spoil_the_run() -> None:
    analysis = analysed(*reduced(durations=((1.0,), (1.0, 2.0))))
    assert "different numbers" in analysis.validity.reasons[0].text


def test_a_log_without_messages_is_no_result() -> None:
    assert "no message" in str(analysed().validity.reasons)


def test_a_rank_that_did_not_finish_leaves_no_result() -> None:
    analysis = analysed(reported(), *reduced(), finished=(0,))
    assert not analysis.validity.sound
    assert analysis.transfers == ()


def test_a_disturbed_run_keeps_its_rows_and_is_not_valid() -> None:
    analysis = analysed(reported(), *reduced(), foreign_s=0.4)
    assert [reason.code for reason in analysis.validity.reasons] == ["foreign_load"]
    assert analysis.validity.grade is Grade.DISTURBED
    assert len(analysis.transfers) == 2


def test_sizes_left_out_for_lack_of_time_are_told() -> None:
    analysis = analysed(reported(), *reduced(), skipped=[{"bytes": 8}])
    assert any("left out" in note for note in analysis.validity.notes)


@pytest.mark.parametrize(
    "broken", [{"duration_s": [0.0]}, {"duration_s": []}, {"duration_s": ["NaN"]}, {"ranks": [0]}, {"operation": "x"}]
)
def test_a_log_with_impossible_messages_is_invalid(broken: dict[str, object]) -> None:
    kind, rank, data = reported()
    analysis = analysed((kind, rank, data | broken), *reduced())
    assert analysis.failure is not None
    assert analysis.failure.kind is FailureKind.INVALID_LOG


def test_times_that_stand_for_several_calls_are_those_of_one_and_say_so() -> None:
    """The durations are a call's already; what the log does not say is a call that was waited for."""
    alone = analysed(reported(), *reduced())
    both = [(kind, rank, {**data, "queued": 20}) for kind, rank, data in (reported(), *reduced())]
    queued = analysed(*both)
    assert [row.duration_p50_s for row in queued.transfers] == [row.duration_p50_s for row in alone.transfers]
    assert "times are means of 20 to 20 calls that were queued together" in queued.validity.notes
    assert not any("queued" in note for note in alone.validity.notes)
