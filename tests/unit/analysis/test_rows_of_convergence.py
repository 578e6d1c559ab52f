"""The row of a cell that trained to a target: an interval where all runs reached it, no mean over the lucky ones."""

from statistics import geometric_mean
from typing import Any

import pytest

from orchestrator.analysis.cell.row import row_of
from orchestrator.domain.runs.row import Row
from orchestrator.domain.runs.run import Run, RunState
from orchestrator.domain.value.failure import Failure, FailureKind
from orchestrator.domain.value.measurement import ONLY_CONVERGENCE, Analysis, Measurement, Validity
from orchestrator.domain.value.timed_intervals import Series
from tests.unit import builders as make

SPEC = make.spec(repeats=4)
SHORT = "the target of 0.8 was not reached in 50 steps"


def a_run(number: int, seconds: float | None, length: int = 60, **changes: Any) -> Run:
    """One that was trained for so many intervals, and reached its target after so many seconds, or not."""
    found = [
        Measurement("quality_best", 0.7 + 0.01 * number, "1", "counted"),
        Measurement("time_to_target_s", seconds, "s", "m", reason=None if seconds is not None else SHORT),
    ]
    analysis = Analysis(
        Validity(()), measurements=tuple(found), series=Series.of([0.1] * length, [4.0] * length, [1] * length)
    )
    plan = make.plan(mode="convergence", target=0.8, evaluate_every=5, repetition=number)
    told = {"plan": plan, "analysis": analysis, "attempts": (make.attempt(f"run_{number}"),), **changes}
    return make.run(f"run_{number}", RunState.COMPLETED, **told)


def row(*runs: Run) -> Row:
    return row_of(SPEC, runs)


def test_where_all_runs_reached_it_their_times_have_an_interval() -> None:
    found = row(*(a_run(number, 10.0 + number) for number in (1, 2, 3, 4)))
    time = found.measurements["time_to_target_s"]
    assert time.value == pytest.approx(geometric_mean((11.0, 12.0, 13.0, 14.0)))
    assert time.ci_low is not None
    assert time.ci_low < time.value < time.ci_high


def test_where_some_did_not_there_is_no_mean_over_the_others() -> None:
    found = row(a_run(1, 10.0), a_run(2, None), a_run(3, 11.0), a_run(4, 12.0))
    assert "time_to_target_s" not in found.measurements
    assert found.reasons["time_to_target_s"] == f"1 of 4 runs did not reach it, such as: {SHORT}"
    assert found.measurements["quality_best"].n == 4


def test_a_run_that_diverged_did_not_reach_it_either() -> None:
    failure = Failure(FailureKind.DIVERGED, "the loss is nan after step 7")
    lost = make.run("run_4", RunState.FAILED, plan=a_run(4, None).plan, failure=failure)
    found = row(a_run(1, 10.0), a_run(2, 11.0), a_run(3, 12.0), lost)
    assert "time_to_target_s" not in found.measurements
    assert "1 of 4 runs did not reach it, such as: the loss is nan" in found.reasons["time_to_target_s"]


def test_where_none_reached_it_the_reason_is_the_runs_own() -> None:
    found = row(*(a_run(number, None) for number in (1, 2, 3, 4)))
    assert found.reasons["time_to_target_s"] == SHORT


def test_a_run_that_reached_it_soon_counts_although_it_is_too_short_for_a_rate() -> None:
    found = row(a_run(1, 1.0, length=2), *(a_run(number, 10.0, length=400) for number in (2, 3, 4)))
    assert found.measurements["time_to_target_s"].value == pytest.approx(geometric_mean((1.0, 10.0, 10.0, 10.0)))


def test_a_cell_of_throughput_has_none_of_it_and_says_why() -> None:
    found = row(make.run("run_1", RunState.COMPLETED, analysis=make.analysis(), attempts=(make.attempt(),)))
    assert found.reasons["quality_best"] == found.reasons["time_to_target_s"] == ONLY_CONVERGENCE
