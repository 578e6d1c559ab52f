"""Result rows and comparisons."""

import math
from statistics import geometric_mean, stdev
from typing import Any

import pytest

from orchestrator.api.views.results import ResultRowView
from orchestrator.domain.runs.run import RunState
from orchestrator.domain.value.failure import Failure, FailureKind
from orchestrator.domain.value.measurement import METRICS
from orchestrator.reports.tables.results_table import results_table
from orchestrator.services.reconcile.review import review
from tests.unit import builders
from tests.unit.api.api_rig import Rig, fingerprint_of, rate

SHAPE = {
    "value",
    "unit",
    "unit_definition",
    "ci_low",
    "ci_high",
    "confidence",
    "n",
    "scope",
    "method",
}


def test_a_row_has_a_place_for_every_metric() -> None:
    assert set(METRICS) <= set(ResultRowView.model_fields)


def test_the_estimate_of_a_cell_is_the_mean_over_its_runs_with_students_t(rig: Rig) -> None:
    experiment = rig.submit()
    rig.complete_all(experiment["id"], [99.0, 100.0, 101.0])
    (row,) = rig.get(f"/experiments/{experiment['id']}/results")["items"]
    throughput = row["throughput"]
    assert set(throughput) == SHAPE
    assert throughput["value"] == pytest.approx(geometric_mean((99.0, 100.0, 101.0)))
    half = 4.3027 * stdev(map(math.log, (99.0, 100.0, 101.0))) / math.sqrt(3)
    assert throughput["ci_high"] == pytest.approx(throughput["value"] * math.exp(half), rel=1e-6)
    assert (throughput["n"], throughput["confidence"], row["n_used"]) == (3, 0.95, 3)
    assert row["grade"] == row["validity"]["grade"] == "sound"


def test_what_was_not_measured_is_null_with_the_reason_beside(rig: Rig) -> None:
    experiment = rig.submit()
    rig.complete_all(experiment["id"], [99.0, 100.0, 101.0])
    (row,) = rig.get(f"/experiments/{experiment['id']}/results")["items"]
    assert row["power_w"] is None
    assert row["reasons"]["power_w"] == "a CPU device has no power reading"
    assert {metric for metric in METRICS if row[metric] is None} == set(row["reasons"]) - {"between_sessions"}


def test_the_axes_of_a_row_are_the_fields_of_the_spec_but_for_its_limits(rig: Rig) -> None:
    spec = rig.submit()["spec"]
    (row,) = rig.get("/results")["items"]
    without = {"name", "labels", "priority", "exclude", "repeats", "precision_target"}
    without |= {
        "max_repeats",
        "max_steps",
        "max_epochs",
        "timeout_s",
        "exchange_timeout_s",
        "deadline_s",
        "device_time_budget_s",
        "min_measure_s",
        "max_measure_s",
        "memory_limit_bytes",
    }
    assert set(row["axes"]) == set(spec) - without
    assert row["axes"]["strategy"] == "single"  # what auto stood for
    assert row["n_pending"] == row["n_runs"] == 3


def test_a_single_run_has_no_interval_and_says_so(rig: Rig) -> None:
    experiment = rig.submit(repeats=1)
    rig.complete_all(experiment["id"], [100.0])
    (row,) = rig.get("/results")["items"]
    assert (row["throughput"]["value"], row["throughput"]["ci_low"]) == (100.0, None)
    assert "single run" in row["throughput"]["scope"]


def test_disturbed_runs_are_left_out_and_named_where_four_are_sound(rig: Rig) -> None:
    experiment = rig.submit(repeats=5)
    runs = rig.store.runs_of(experiment["id"])
    rates = (rate(50.0, builders.LOADED), rate(99.0), rate(101.0), rate(99.0), rate(101.0))
    for run, analysis in zip(runs, rates, strict=True):
        rig.start(run.id)
        rig.finish(run.id, analysis, fingerprint=fingerprint_of())
    (row,) = rig.get("/results")["items"]
    assert row["throughput"]["value"] == pytest.approx(100.0, rel=1e-3)
    assert "at a foreign load of 10 % or less" in row["throughput"]["scope"]
    assert (row["n_used"], row["n_runs"], row["grade"]) == (4, 5, "sound")
    assert [(one["run_id"], one["reasons"][0]["code"]) for one in row["left_out"]] == [(runs[0].id, "foreign_load")]


def test_a_cell_without_enough_sound_runs_rests_on_all_that_were_planned_and_says_so(rig: Rig) -> None:
    experiment = rig.submit(repeats=2)
    for run, value in zip(rig.store.runs_of(experiment["id"]), (50.0, 60.0), strict=True):
        rig.start(run.id)
        rig.finish(run.id, rate(value, builders.LOADED))
    (row,) = rig.get("/results")["items"]
    assert row["throughput"]["value"] == pytest.approx(math.sqrt(50.0 * 60.0))
    assert row["throughput"]["ci_low"] < 50.0
    assert "with what else ran" in row["throughput"]["scope"]
    assert (row["grade"], row["n_used"]) == ("disturbed", 2)
    assert row["validity"]["reasons"][0]["text"] == builders.LOADED.text


def _named(page: dict[str, Any]) -> list[tuple[str, str]]:
    return [(row["experiment_name"], row["axes"]["framework"]) for row in page["items"]]


def test_a_broken_run_leaves_no_rate_at_all(rig: Rig) -> None:
    experiment = rig.submit(repeats=1)
    (run,) = rig.store.runs_of(experiment["id"])
    rig.start(run.id)
    rig.finish(run.id, builders.analysis(builders.REPLICAS_DIFFER))
    (row,) = rig.get("/results")["items"]
    assert row["throughput"] is None
    assert row["grade"] == "broken"
    assert row["validity"]["reasons"][0]["code"] == "replicas_differ"


def test_results_across_experiments_are_filtered_and_paged_by_rows(rig: Rig) -> None:
    for number in range(3):
        rig.submit(name=f"e{number}", framework=["pytorch", "tensorflow"], labels={"n": str(number)})
    page = rig.get("/results", limit=3)
    assert _named(page) == [("e2", "pytorch"), ("e2", "tensorflow"), ("e1", "pytorch")]
    rig.submit(name="later")
    following = rig.get("/results", limit=9, cursor=page["next_cursor"])
    assert _named(following) == [("e1", "tensorflow"), ("e0", "pytorch"), ("e0", "tensorflow")]
    assert following["next_cursor"] is None
    rows = rig.get("/results", framework="tensorflow")["items"]
    assert [row["axes"]["framework"] for row in rows] == ["tensorflow"] * 3
    assert {row["experiment_name"] for row in rig.get("/results", label="n=1")["items"]} == {"e1"}
    assert rig.get("/results", gpu_model="H200")["items"] == []


def compared(rig: Rig, left: list[float], right: list[float], **subject: str) -> dict[str, object]:
    one, other = rig.submit(name="a", repeats=len(left)), rig.submit(name="b", repeats=len(right))
    rig.complete_all(one["id"], left)
    rig.complete_all(other["id"], right, **subject)
    return dict(rig.get("/compare", baseline=one["id"], candidate=other["id"]))


def test_a_clear_slowdown_is_told_with_its_interval_and_what_differs_beside(rig: Rig) -> None:
    comparison = compared(rig, [100.0, 100.1, 99.9], [90.0, 90.1, 89.9], framework_version="2.14")
    (item,) = comparison["items"]  # type: ignore[misc]
    assert item["verdict"] == "slower"
    assert item["difference"]["value"] == pytest.approx(-0.1, abs=1e-3)
    assert item["difference"]["ci_low"] < item["difference"]["value"] < item["difference"]["ci_high"] < 0
    assert {"part": "subject", "field": "framework_version", "baseline": "2.13", "candidate": "2.14"} in item["changes"]


def test_noise_is_not_told_as_a_difference_and_the_least_visible_one_is_named(rig: Rig) -> None:
    (item,) = compared(rig, [100.0, 104.0, 96.0], [98.0, 103.0, 95.0])["items"]  # type: ignore[misc]
    assert item["verdict"] == "cannot_tell"
    assert item["smallest_detectable_ratio"] > 0.05


def test_single_runs_cannot_be_told_apart(rig: Rig) -> None:
    (item,) = compared(rig, [100.0], [50.0])["items"]  # type: ignore[misc]
    assert item["verdict"] == "cannot_tell"
    assert item["difference"]["ci_low"] is None


def test_cells_of_another_workload_are_not_compared_and_the_difference_is_named(rig: Rig) -> None:
    one, other = rig.submit(name="a"), rig.submit(name="b", per_device_batch_size=8)
    comparison = rig.get("/compare", baseline=one["id"], candidate=other["id"])
    assert comparison["items"] == []
    assert [side["side"] for side in comparison["unmatched"]] == ["baseline", "candidate"]
    assert "per_device_batch_size (4, there 8)" in comparison["unmatched"][0]["reason"]


def test_a_default_that_plans_do_not_write_is_named_as_a_difference_too(rig: Rig) -> None:
    one, other = rig.submit(name="a"), rig.submit(name="b", exclusive="device")
    comparison = rig.get("/compare", baseline=one["id"], candidate=other["id"])
    assert "exclusive (node, there device)" in comparison["unmatched"][0]["reason"]


def test_a_rate_of_nothing_is_told_as_such_and_compared_with_nothing(rig: Rig) -> None:
    one, other = rig.submit(name="a", repeats=1), rig.submit(name="b", repeats=1)
    rig.complete_all(one["id"], [100.0])
    rig.complete_all(other["id"], [0.0])
    (item,) = rig.get("/compare", baseline=one["id"], candidate=other["id"])["items"]
    assert (item["verdict"], item["text"]) == ("cannot_tell", "the candidate has none: its rate is not positive")


def test_a_run_is_compared_with_a_run(rig: Rig) -> None:
    experiment = rig.submit(repeats=2)
    first, second = rig.complete_all(experiment["id"], [100.0, 90.0])
    comparison = rig.get("/compare", baseline=first.id, candidate=second.id)
    (item,) = comparison["items"]
    assert (item["baseline"]["value"], item["candidate"]["value"]) == (100.0, 90.0)


def test_several_are_compared_with_the_first_as_two_by_two(rig: Rig) -> None:
    one, other = (rig.submit(name=name, repeats=2)["id"] for name in "ab")
    first, second = rig.complete_all(one, [100.0, 90.0])
    rig.complete_all(other, [80.0, 70.0])
    ids = [first.id, second.id, other, first.id]
    found = rig.get(f"/comparisons?{'&'.join(f'of={one}' for one in ids)}")
    assert found["items"] == [rig.get("/compare", baseline=first.id, candidate=one) for one in ids[1:]]
    assert [thing["id"] for thing in found["things"]] == ids
    assert [thing["series"] is None for thing in found["things"]] == [False, False, True, False]
    for wrong, status in (("of=run_gone", 404), ("of=exp_gone", 404), ("", 422), ("of=a&" * 102, 422)):
        assert rig.http.get(f"/api/v1/comparisons?{wrong}").status_code == status


def test_a_side_without_a_valid_run_is_told_as_such(rig: Rig) -> None:
    one, other = rig.submit(name="a", repeats=1), rig.submit(name="b", repeats=1)
    rig.complete_all(one["id"], [100.0])
    (run,) = rig.store.runs_of(other["id"])
    rig.start(run.id)
    rig.finish(run.id, builders.analysis(), RunState.CANCELLED)
    (item,) = rig.get("/compare", baseline=one["id"], candidate=other["id"])["items"]
    assert item["verdict"] == "cannot_tell"
    assert "candidate" in item["text"]


def test_runs_for_a_wanted_precision_are_added_until_it_is_reached_and_the_row_says_so(rig: Rig) -> None:
    experiment = rig.submit(precision_target=0.01, max_repeats=30)
    rig.complete_all(experiment["id"], [99.0, 99.5, 100.0, 100.0, 100.5, 101.0])
    (row,) = rig.get("/results")["items"]
    assert row["precision"]["met"] is True
    assert row["precision"]["half_width_ratio"] == pytest.approx(2.5706 * math.sqrt(0.5) / math.sqrt(6) / 100, rel=0.01)

    assert review(rig.context, experiment["id"]) is True
    assert len(rig.store.runs_of(experiment["id"])) == 6


def test_a_noisy_cell_gets_the_runs_that_steins_rule_wants(rig: Rig) -> None:
    experiment = rig.submit(precision_target=0.01, max_repeats=9)
    rig.complete_all(experiment["id"], [98.0, 99.0, 100.0, 100.0, 101.0, 102.0])
    assert review(rig.context, experiment["id"]) is True
    added = list(rig.store.runs_of(experiment["id"]))[6:]
    assert [run.plan.repetition for run in added] == [7, 8, 9]
    for run in added:
        rig.start(run.id)
        rig.finish(run.id, rate(100.0), fingerprint=fingerprint_of())
    assert review(rig.context, experiment["id"]) is True
    assert rig.get(f"/experiments/{experiment['id']}")["state"] == "completed"
    (row,) = rig.get("/results")["items"]
    assert "Stein" in row["throughput"]["method"]
    assert row["throughput"]["ci_high"] - 100.0 == pytest.approx(2.5706 * math.sqrt(2.0) / math.sqrt(9), rel=0.01)
    assert (row["precision"]["met"], row["precision"]["n_wanted"]) == (False, 14)
    assert "precision not reached" in results_table([row]).rows[0][-1]


def test_a_row_says_how_much_runs_and_nodes_vary(rig: Rig) -> None:
    experiment = rig.submit(repeats=4)
    for run, value, node in zip(
        rig.store.runs_of(experiment["id"]), [99.0, 101.0, 119.0, 121.0], ["n0", "n0", "n1", "n1"], strict=True
    ):
        rig.start(run.id, node)
        rig.finish(run.id, rate(value), fingerprint=fingerprint_of())
    (row,) = rig.get("/results")["items"]
    assert row["variation"]["nodes"] == 2
    assert row["variation"]["node_ratio"] == pytest.approx(math.sqrt(199) / 110, rel=0.01)
    assert row["fleet"] is None
    assert "2 nodes" in row["throughput"]["scope"]


def test_cells_repeated_for_a_precision_are_compared_by_the_noise_of_their_first_stage(rig: Rig) -> None:
    sides = [rig.submit(precision_target=0.01, max_repeats=30) for _ in range(2)]
    for side, level in zip(sides, (100.0, 90.0), strict=True):
        rig.complete_all(side["id"], [level - 1.0, level - 0.5, level, level, level + 0.5, level + 1.0])
    (item,) = rig.get("/compare", baseline=sides[0]["id"], candidate=sides[1]["id"])["items"]
    assert item["verdict"] == "slower"
    assert "first stage" in item["difference"]["method"]


def test_repetitions_of_a_batch_that_does_not_hold_are_cancelled_and_its_cell_gives_way(rig: Rig) -> None:
    """The first repetition fits and the second does not: the third has not begun."""
    experiment = rig.submit(per_device_batch_size="max", memory_limit_bytes=2**30)["id"]
    short = Failure(FailureKind.OUT_OF_MEMORY, "no more")

    def end(largest: int, repetitions: int = 1) -> None:
        for run in rig.store.runs_of(experiment):
            plan = run.plan
            if run.state is RunState.QUEUED and not run.cancel_requested and plan.repetition <= repetitions:
                rig.start(run.id)
                fits = plan.per_device_batch_size <= largest
                how = {} if fits else {"to": RunState.FAILED, "failure": short}
                rig.finish(run.id, rate(100.0), fingerprint=fingerprint_of(), **how)
                review(rig.context, experiment, plan.cell_key)

    while not any(run.plan.repetition == 3 for run in rig.store.runs_of(experiment)):
        end(largest=3)
    end(largest=2, repetitions=2)
    third = next(run for run in rig.store.runs_of(experiment) if run.plan.repetition == 3)
    assert third.cancel_requested
    rig.store.move_run(third.id, RunState.QUEUED, RunState.CANCELLED, at=11.0)
    for _ in range(2):
        end(largest=2, repetitions=3)

    assert rig.get(f"/experiments/{experiment}")["state"] == "completed"
    (row,) = rig.get(f"/experiments/{experiment}/results")["items"]
    assert (row["axes"]["per_device_batch_size"], row["n_runs"], row["grade"]) == (2, 3, "sound")
    (note,) = row["validity"]["notes"]
    assert note.startswith("max: the tries found a batch of 3; measured whole there was no memory for 3 (run_")
    assert rig.get(f"/experiments/{experiment}/scaling")["missing"] == []
