"""Profiles over REST: memory, kernels, layers, the timeline, the difference of two runs, and a new analysis."""

import json
from dataclasses import replace
from typing import Any

import pytest

from orchestrator.analysis.analyse import CODE_VERSION, analyse
from orchestrator.domain.value.measurement import Analysis, Validity
from orchestrator.domain.value.profile import KernelTable, Profiles
from tests.contract.test_store_profiles import WHOLE, kernels
from tests.unit.analysis.logs import NODE, STEP_S
from tests.unit.analysis.test_calibration import CUBE, a_calibration
from tests.unit.analysis.test_netbench import a_netbench, reduced, reported
from tests.unit.analysis.test_profiles import a_profiled_log, allocation_events, kernel_event, layer_event
from tests.unit.api.api_rig import Rig
from tests.unit.builders import KERNEL_KINDS


@pytest.fixture
def run_id(rig: Rig) -> str:
    experiment = rig.submit(repeats=1, profile=["kernels", "layers"])
    return str(rig.get(f"/experiments/{experiment['id']}/runs")["items"][0]["id"])


def profiled(rig: Rig, run_id: str, profiles: Profiles = WHOLE) -> None:
    rig.start(run_id)
    rig.finish(run_id, Analysis(Validity(), profiles=profiles, code_version="1"))


def another(rig: Rig) -> str:
    experiment = rig.submit(repeats=1, profile=["kernels"], seed=2)
    return str(rig.get(f"/experiments/{experiment['id']}/runs")["items"][0]["id"])


def test_memory_is_that_of_the_rank_with_the_greatest_peak_and_of_each(rig: Rig, run_id: str) -> None:
    small, large = WHOLE.memory
    profiled(rig, run_id, replace(WHOLE, memory=(small, replace(large, peak_bytes=2**38))))
    answer = rig.get(f"/runs/{run_id}/memory")
    assert (answer["rank"], answer["peak_bytes"], answer["outside_bytes"]) == (1, 2**38, 2**31)
    assert list(answer["classes"]) == ["weights", "weight_gradients", "feature_maps", "workspace", "dynamic"]
    assert set(answer["parts"]) == {"optimizer_state", "input", "other"}
    for one in answer["ranks"]:
        shares = sum(share["at_peak_bytes"] for share in one["classes"].values())
        assert shares + one["residual_bytes"] == one["peak_bytes"]
    assert [one["rank"] for one in answer["ranks"]] == [0, 1]
    assert answer["reason"] is None


def test_the_kernel_table_is_of_all_ranks_or_of_one(rig: Rig, run_id: str) -> None:
    profiled(rig, run_id)
    whole = rig.get(f"/runs/{run_id}/kernels")
    assert whole["ranks"] == [0, 1]
    assert [row["kind"] for row in whole["items"]] == ["element-wise", "matrix product"]
    assert sum(row["share_ratio"] for row in whole["items"]) == pytest.approx(1.0)
    assert whole["items"][0]["fp32_utilization_ratio"] is None
    assert whole["items"][0]["reason"] == "no counters"
    assert sum(whole["kinds"].values()) == pytest.approx(1.0)
    one = rig.get(f"/runs/{run_id}/kernels", rank=1)
    assert [row["name"] for row in one["items"]] == ["aten::relu"]
    (only,) = rig.get(f"/runs/{run_id}/kernels", kind="matrix product")["items"]
    assert (only["fp32_utilization_ratio"], only["reason"]) == (0.5, None)
    assert (whole["average_fp32_utilization_ratio"], whole["longest_below_average"]) == (0.5, [])


def test_rows_come_in_pages(rig: Rig, run_id: str) -> None:
    profiled(rig, run_id)
    for what in ("kernels", "layers"):
        whole = rig.get(f"/runs/{run_id}/{what}")["items"]
        first = rig.get(f"/runs/{run_id}/{what}", limit=1)
        rest = rig.get(f"/runs/{run_id}/{what}", cursor=first["next_cursor"])
        assert [*first["items"], *rest["items"]] == whole
        assert rest["next_cursor"] is None


def test_layers_are_of_one_rank_with_the_breakdown_of_its_step(rig: Rig, run_id: str) -> None:
    profiled(rig, run_id)
    answer = rig.get(f"/runs/{run_id}/layers")
    assert (answer["rank"], answer["ranks"], answer["serialised"]) == (0, [0, 1], True)
    assert answer["breakdown"]["host_to_device_s"] is None
    assert answer["breakdown_reasons"] == {"host_to_device_s": "nothing is copied"}
    assert [row["name"] for row in answer["items"]] == ["stem.0", "head"]
    assert len(answer["exchanges"]) == 2
    assert len(rig.get(f"/runs/{run_id}/layers", rank=1)["exchanges"]) == 1


@pytest.mark.parametrize("what", ["kernels", "layers"])
def test_a_rank_that_has_no_profile_is_refused(rig: Rig, run_id: str, what: str) -> None:
    profiled(rig, run_id)
    answer = rig.http.get(f"/api/v1/runs/{run_id}/{what}?rank=7")
    assert answer.status_code == 422
    assert "those of 0, 1" in answer.json()["errors"][0]["detail"]


def test_what_is_not_there_says_why(rig: Rig, run_id: str) -> None:
    assert "not asked to profile" in rig.get(f"/runs/{run_id}/memory")["reason"]
    assert "queued" in rig.get(f"/runs/{run_id}/kernels")["reason"]
    profiled(rig, run_id, Profiles(reasons={"layers": "rank 0: a time of -1 s"}))
    assert rig.get(f"/runs/{run_id}/layers")["reason"] == "rank 0: a time of -1 s"
    assert rig.get(f"/runs/{run_id}/layers")["breakdown"] is None


def test_two_runs_kernels_are_compared_in_seconds_per_step_and_rank(rig: Rig, run_id: str) -> None:
    profiled(rig, run_id, Profiles(kernels=(kernels(0),)))
    other = another(rig)
    relu = replace(kernels(0).rows[1], total_s=1.0)
    profiled(rig, other, Profiles(kernels=(KernelTable(0, "profiler", 1, 1.0, 1.0, (relu,)),)))
    answer = rig.get(f"/runs/{other}/kernels/changes", baseline=run_id)
    found = {row["name"]: (row["change"], row["difference_s"]) for row in answer["items"]}
    assert found == {
        "aten::relu": ("slower", pytest.approx(1.0 - 2 / 27)),
        "void gemm<float>(é, 矩阵)": ("vanished", pytest.approx(-1 / 9)),
    }
    plain = another(rig)
    assert plain in rig.get(f"/runs/{plain}/kernels/changes", baseline=run_id)["reason"]


def test_the_trace_of_a_run_is_a_file_for_perfetto(rig: Rig, run_id: str) -> None:
    attempt = rig.start(run_id)
    rig.store.append_entries(attempt, NODE, a_profiled_log(kernel_event(), layer_event()))
    answer = rig.http.get(f"/api/v1/runs/{run_id}/trace")
    assert answer.headers["content-disposition"] == f'attachment; filename="{run_id}.trace.json"'
    events = answer.json()["traceEvents"]
    timed = [event for event in events if event["ph"] == "X" and event.get("cat") == "timed"]
    assert len(timed) == 120
    assert timed[0]["dur"] == pytest.approx(1e6 * STEP_S, rel=0.2)


def test_a_run_without_a_log_has_an_empty_trace_with_a_reason(rig: Rig, run_id: str) -> None:
    found = rig.get(f"/runs/{run_id}/trace")
    assert (found["traceEvents"], found["otherData"]["reason"]) == ([], "there is no log")


def judged(rig: Rig, run_id: str, change: dict[str, float] | None = None, profiles: Profiles | None = None) -> None:
    """A run whose log is stored, with what today's analysis says of it, or something else."""
    log = a_profiled_log(kernel_event(), layer_event(), *allocation_events())
    attempt = rig.start(run_id)
    rig.store.append_entries(attempt, NODE, log)
    analysis = analyse({NODE: log}, KERNEL_KINDS)
    found = tuple(replace(one, value=(change or {}).get(one.metric, one.value)) for one in analysis.measurements)
    profiles = profiles if profiles is not None else analysis.profiles
    rig.finish(run_id, replace(analysis, measurements=found, profiles=profiles, code_version="older"))


def test_a_new_analysis_of_the_same_log_by_the_same_code_changes_nothing(rig: Rig, run_id: str) -> None:
    judged(rig, run_id)
    answer = rig.get(f"/runs/{run_id}/reanalysis")
    assert answer["differences"] == []
    assert (answer["stored_code_version"], answer["code_version"]) == ("older", CODE_VERSION)


def test_a_new_analysis_says_what_it_would_change_and_changes_nothing(rig: Rig, run_id: str) -> None:
    judged(rig, run_id, {"throughput": 1.0})
    for _ in range(2):
        (difference,) = rig.get(f"/runs/{run_id}/reanalysis")["differences"]
        assert (difference["what"], difference["stored"]) == ("throughput", 1.0)
        assert difference["now"] == pytest.approx(4 / STEP_S, rel=0.02)


def test_a_kernel_whose_kind_was_told_otherwise_and_a_class_that_was_larger_are_found(rig: Rig, run_id: str) -> None:
    now = analyse({NODE: a_profiled_log(kernel_event(), layer_event(), *allocation_events())}, KERNEL_KINDS).profiles
    (table,), (memory,) = now.kernels, now.memory
    rows = (replace(table.rows[0], kind="other"), *table.rows[1:])
    weights = replace(memory.classes["weights"], at_peak_bytes=4)
    memory = replace(memory, classes={**memory.classes, "weights": weights})
    judged(rig, run_id, profiles=replace(now, kernels=(replace(table, rows=rows),), memory=(memory,)))
    found = {row["what"]: (row["stored"], row["now"]) for row in rig.get(f"/runs/{run_id}/reanalysis")["differences"]}
    assert found == {
        "memory of rank 0, weights at the peak": (4, 400),
        "kernels of rank 0, share of kind other": (pytest.approx(0.75), None),
        "kernels of rank 0, share of kind matrix product": (None, pytest.approx(0.75)),
    }


def found_anew(rig: Rig, run_id: str, log: Any, **stored: Any) -> dict[str, tuple[Any, Any]]:
    """What a new analysis of ``log`` says otherwise, where ``stored`` was stored in the place of its own."""
    attempt = rig.start(run_id)
    rig.store.append_entries(attempt, NODE, log)
    rig.finish(run_id, replace(analyse({NODE: log}, KERNEL_KINDS), **stored))
    rows = rig.get(f"/runs/{run_id}/reanalysis")["differences"]
    return {row["what"]: (row["stored"], row["now"]) for row in rows}


def test_a_calibration_that_would_find_another_peak_today_is_found(rig: Rig, run_id: str) -> None:
    log = a_calibration([(0, "fp32", CUBE, [0.9, 1.0, 5.0])])[NODE]
    (peak,) = analyse({NODE: log}).calibrations
    of = "fp32 of cpu:0-1 on node-1, operations per s"
    assert found_anew(rig, run_id, log, calibrations=(replace(peak, flops_per_s=1e6, rates={}),)) == {
        of: (1e6, pytest.approx(2e6)),
        f"{of} at 100x100x100": (None, pytest.approx(2e6)),
    }
    assert found_anew(rig, another(rig), log) == {}


def test_an_exchange_that_would_be_judged_otherwise_today_is_found(rig: Rig, run_id: str) -> None:
    log = a_netbench(reported(), *reduced())
    first, *others = analyse({NODE: log}).transfers
    changed = replace(first, bus_bytes_per_s=1.0)
    (difference,) = found_anew(rig, run_id, log, transfers=(changed, *others)).items()
    assert difference[0].endswith("bus_bytes_per_s")
    assert difference[1] == (1.0, pytest.approx(first.bus_bytes_per_s))


def test_a_note_that_today_s_analysis_would_make_is_found(rig: Rig, run_id: str) -> None:
    log = a_profiled_log(kernel_event())
    notes = analyse({NODE: log}).validity.notes
    assert notes
    assert found_anew(rig, run_id, log, validity=Validity()) == {"notes": ([], sorted(notes))}


def test_a_run_that_has_no_log_or_no_result_cannot_be_analysed_anew(rig: Rig, run_id: str) -> None:
    assert "queued" in rig.get(f"/runs/{run_id}/reanalysis")["reason"]
    profiled(rig, run_id)
    assert rig.get(f"/runs/{run_id}/reanalysis")["reason"] == "its log was never stored"


def test_answers_are_strict_json(rig: Rig, run_id: str) -> None:
    judged(rig, run_id)
    for what in ("memory", "kernels", "layers", "trace", "reanalysis"):
        text = rig.http.get(f"/api/v1/runs/{run_id}/{what}").text
        json.loads(text, parse_constant=pytest.fail)
