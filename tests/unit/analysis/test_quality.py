"""From the evaluations in a log to the curve, the quality and the time to the target."""

import pytest

from orchestrator.analysis.analyse import analyse
from orchestrator.domain.value.failure import FailureKind
from tests.unit.analysis.logs import a_job, a_log, closed

FACTS = {"metric": "top_1_accuracy_ratio", "better": "higher", "target": 0.75, "dataset": "", "source": ""}
PERPLEXITY = {**FACTS, "metric": "perplexity", "better": "lower"}
EVERY = 10


def rights(count):
    return {"n": 50.0, "top_1": float(count), "top_5": 50.0}


def evaluated(sums, /, target=0.8, facts=FACTS, failure=None, **changes):
    """The analysis of a run that was evaluated every 10 steps, ``sums`` having been counted one after the other.
    ``failure``: what its log is closed with."""
    job = a_job()
    plan = {**job["plan"], "mode": "convergence", "target": target, "evaluate_every": EVERY}
    log = a_log(timed=[0.4] * 100, job={**job, "plan": plan, "model": {**job["model"], "quality": facts}})[:-1]
    counted, entries = {EVERY * number: found for number, found in enumerate(sums, start=1)}, []
    for entry in log:
        entries.append(entry)
        if entry["kind"] == "loss" and entry["data"]["step"] in counted:
            step = entry["data"]["step"]
            told = {"step": step, "metric": facts["metric"], "sums": counted[step], "samples": 50, "loss": 1.0}
            told |= {"cost_s": 2.0, "trained_s": 0.4 * step, "elapsed_s": 0.4 * step + 2.0 * (step / EVERY - 1)}
            entries.append({**entry, "kind": "evaluation", "data": told | changes})
    return analyse({"node-1": closed(entries, failure)})


def value(analysis, metric):
    return analysis.measurement(metric).value


def test_the_time_to_the_target_is_that_of_the_first_evaluation_that_reached_it() -> None:
    found = evaluated([rights(20), rights(41), rights(39)])
    assert (value(found, "quality_best"), value(found, "quality_final")) == (0.82, 0.78)
    assert value(found, "time_to_target_s") == pytest.approx(8.0)
    assert value(found, "time_to_target_elapsed_s") == pytest.approx(10.0)
    assert value(found, "evaluation_s") == pytest.approx(6.0)
    assert "counted on 50 samples" in found.measurement("quality_best").method


def test_an_attempt_that_was_resumed_tells_the_whole_curve_and_says_what_is_in_no_time() -> None:
    job = a_job()
    plan = {**job["plan"], "mode": "convergence", "target": 0.8, "evaluate_every": EVERY, "max_epochs": 2.0}
    log = a_log(
        timed=[0.4] * 100, losses=[2.0] * 101, job={**job, "plan": plan, "model": {**job["model"], "quality": FACTS}}
    )
    entries = []
    for entry in log[:-1]:
        data = entry["data"]
        for key in ("first_step", "step", "steps"):
            if key in data:
                data[key] += 50
        entries.append(entry)
        if entry["kind"] == "built":
            lost = {"step": 50, "attempt_id": "att_1", "reason": None, "damaged": [], "lost_s": 33.0, "cost_s": 0.1}
            entries.append({**entry, "kind": "resumed", "data": lost})
            entries.append({**entry, "kind": "epoch", "data": {"samples": 600, "max_steps": 300}})
            entries.append({**entry, "kind": "evaluation", "data": at(50, 30)})
        if entry["kind"] == "loss" and data["step"] == 60:
            entries.append({**entry, "kind": "evaluation", "data": at(60, 41)})
    found = analyse({"node-1": closed(entries)})
    assert [point["step"] for point in found.summary["convergence"]["curve"]] == [50, 60]
    assert found.summary["convergence"]["epochs"] == {"samples": 600, "max_steps": 300, "max_epochs": 2.0}
    assert found.summary["convergence"]["resumed"] == {"step": 50, "attempt_id": "att_1", "lost_s": 33.0}
    assert value(found, "time_to_target_s") == pytest.approx(24.0)
    assert "resumed at step 50: 33 s" in found.measurement("time_to_target_s").method
    assert found.validity.grade != "broken"


def at(step, right):
    told = {"step": step, "metric": FACTS["metric"], "sums": rights(right), "samples": 50, "loss": 1.0}
    return {**told, "cost_s": 2.0, "trained_s": 0.4 * step, "elapsed_s": 0.4 * step + 2.0 * (step / EVERY - 1)}


def test_a_target_that_was_not_reached_has_no_time_and_says_by_how_much() -> None:
    found = evaluated([rights(20), rights(39)])
    assert value(found, "time_to_target_s") is None
    reason = found.measurement("time_to_target_s").reason
    assert reason.startswith("the target of 0.8 was not reached in 20 steps: the best top_1_accuracy_ratio was 0.78")
    assert "0.02 short of it" in reason


def test_without_a_target_there_is_quality_and_no_time() -> None:
    found = evaluated([rights(20), rights(39)], target=None)
    assert found.measurement("time_to_target_s") is None
    assert value(found, "quality_best") == 0.78


def test_a_perplexity_is_reached_from_above_and_one_that_is_infinite_is_the_worst() -> None:
    sums = [{"tokens": 1.0, "nll": 1e4}, {"tokens": 10.0, "nll": 30.0}, {"tokens": 10.0, "nll": 20.0}]
    found = evaluated(sums, target=10.0, facts=PERPLEXITY)
    assert value(found, "quality_best") == pytest.approx(7.389, rel=1e-3)
    assert value(found, "time_to_target_s") == pytest.approx(12.0)
    curve = found.summary["convergence"]["curve"]
    assert [point["quality"] and round(point["quality"], 2) for point in curve] == [None, 20.09, 7.39]


def test_the_curve_is_kept_with_what_it_is_a_curve_of() -> None:
    told = evaluated([rights(20), rights(41)]).summary["convergence"]
    assert (told["metric"], told["better"], told["target"]) == ("top_1_accuracy_ratio", "higher", 0.8)
    assert [point["step"] for point in told["curve"]] == [10, 20]
    assert [point["trained_s"] for point in told["curve"]] == pytest.approx([4.0, 8.0])


@pytest.mark.parametrize("changes", [{"metric": "unknown"}, {"sums": {}}, {"step": 10}, {"samples": 0}])
def test_an_evaluation_that_cannot_be_makes_the_log_invalid(changes) -> None:
    found = evaluated([rights(20), rights(30)], **changes)
    assert found.failure.kind is FailureKind.INVALID_LOG


def test_a_run_for_throughput_says_nothing_of_quality() -> None:
    found = analyse({"node-1": a_log()})
    assert found.measurement("quality_best") is None
    assert "convergence" not in found.summary


@pytest.mark.parametrize("kind", ["cancelled", "diverged", "timed_out"])
def test_of_a_run_that_did_not_end_well_the_curve_is_kept_and_nothing_is_measured(kind) -> None:
    found = evaluated([rights(20), rights(41)], failure={"kind": kind, "ranks": [0], "message": "it was"})
    assert found.failure.kind is FailureKind(kind)
    assert [point["quality"] for point in found.summary["convergence"]["curve"]] == [0.4, 0.82]
    assert found.summary["steps"] >= 100
    assert not found.measurements
