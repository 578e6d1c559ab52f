"""What a run's times are called, on series whose truth is known. Rates at length: ``make coverage``."""

import numpy as np
import pytest

from bench import simulated
from orchestrator.analysis.statistics.course import CourseState, judge
from orchestrator.analysis.statistics.settling import cut_of

N = 40  # series a case; a rate of 95 % fails the 85 % asked for here once in 300

CASES = [
    (simulated.level, {"n": 150, "deviation": 0.05}, CourseState.STEADY),
    (simulated.level, {"n": 300, "deviation": 0.03, "phi": 0.5}, CourseState.STEADY),
    (simulated.level, {"n": 900, "deviation": 0.02, "phi": 0.8}, CourseState.STEADY),
    (simulated.mixed, {"n": 600, "deviation": 0.03}, CourseState.STEADY),
    (simulated.warmup, {"n": 150, "deviation": 0.02}, CourseState.STEADY),
    (simulated.early_shift, {"n": 150, "deviation": 0.02}, CourseState.STEADY),
    (simulated.small_drift, {"n": 150, "deviation": 0.01}, CourseState.STEADY),
    (simulated.short_cycle, {"n": 150, "deviation": 0.02}, CourseState.STEADY),
    (simulated.spikes, {"n": 150, "deviation": 0.02}, CourseState.STEADY),
    (simulated.heavy_tails, {"n": 150, "deviation": 0.03}, CourseState.STEADY),
    (simulated.buckets, {"n": 150, "deviation": 0.03}, CourseState.STEADY),
    (simulated.shift, {"n": 150, "deviation": 0.03}, CourseState.UNSTEADY),
    (simulated.shift, {"n": 250, "deviation": 0.03, "phi": 0.4}, CourseState.UNSTEADY),
    (simulated.long_cycle, {"n": 150, "deviation": 0.02}, CourseState.UNSTEADY),
    (simulated.drift, {"n": 150, "deviation": 0.02}, CourseState.DRIFTING),
    (simulated.drift, {"n": 250, "deviation": 0.02, "phi": 0.4}, CourseState.DRIFTING),
    (simulated.level, {"n": 45, "deviation": 0.02}, CourseState.TOO_SHORT),
    (simulated.level, {"n": 10, "deviation": 0.02}, CourseState.TOO_SHORT),
]


def _judge(durations, works):
    return judge(durations, works, cut_of([durations / works]).first)


@pytest.mark.parametrize(("generator", "options", "wanted"), CASES, ids=lambda value: getattr(value, "__name__", None))
@pytest.mark.after_change
def test_most_series_of_a_class_are_called_that_class(generator, options, wanted):
    rng = np.random.default_rng(20261121)
    states = [_judge(*generator(rng, **options)[:2]).state for _ in range(N)]
    assert states.count(wanted) >= 0.85 * N, states


def test_the_interval_of_steady_runs_covers_the_truth():
    rng = np.random.default_rng(5)
    covered = []
    for _ in range(200):
        durations, works, truth = simulated.level(rng, 160, 0.03, 0.3)
        first = cut_of([durations / works]).first
        course = judge(durations, works, first)
        if course.state is CourseState.STEADY:
            rate = durations[first:].sum() / works[first:].sum()
            covered.append(abs(rate - truth) <= course.error.half_width / works.mean())
    assert len(covered) > 150
    assert 0.90 <= np.mean(covered) <= 0.99


def test_a_level_is_told_from_the_cut_on():
    durations = np.concatenate([np.full(30, 2.0), np.full(120, 1.0)])
    durations += np.random.default_rng(1).normal(0, 0.01, 150)
    for first in (30, 60):
        assert f"level from interval {first} of 150" in judge(durations, np.ones(150), first).reason


def test_what_is_left_after_the_cut_may_be_too_short():
    durations = 1 + 0.01 * np.random.default_rng(1).standard_normal(150)
    course = judge(durations, np.ones(150), 110)
    assert (course.state, course.error.effective) == (CourseState.TOO_SHORT, 40)
    assert course.reason.startswith("40 intervals after the warm-up")


def test_a_disturbance_in_the_middle_is_no_warm_up():
    rng = np.random.default_rng(2)
    durations = 1 + 0.01 * rng.standard_normal(150)
    durations[30:60] += 0.2
    assert _judge(durations, np.ones(150)).state is CourseState.UNSTEADY


def test_spikes_are_counted_and_stay_in_the_time():
    rng = np.random.default_rng(3)
    durations = 1 + 0.01 * rng.standard_normal(150)
    durations[[40, 90, 120]] += 1.0
    course = _judge(durations, np.ones(150))
    assert course.state is CourseState.STEADY
    assert course.outliers == 3
    assert course.outlier_time_ratio == pytest.approx(3 / 153, rel=0.1)


def test_a_run_that_jumps_between_two_speeds_is_unsteady():
    rng = np.random.default_rng(6)
    durations = np.where(rng.random(200) < 0.3, 3.0, 1.0) + 0.01 * rng.standard_normal(200)
    course = _judge(durations, np.ones(200))
    assert course.state is CourseState.UNSTEADY
    assert "stand out" in course.reason


def test_many_small_spikes_are_taken_as_they_are():
    rng = np.random.default_rng(7)
    durations = 1 + 0.001 * rng.standard_normal(200) + 0.03 * (rng.random(200) < 0.2)
    assert _judge(durations, np.ones(200)).state is CourseState.STEADY


@pytest.mark.parametrize("value", [1.0, 0.1, 1e-6])
def test_equal_durations_are_steady(value):
    course = _judge(np.full(100, value), np.ones(100))
    assert course.state is CourseState.STEADY
    assert course.error.effective == 100
