"""The steady-state classes on series whose truth is known. Rates at length: ``make coverage``."""

import numpy as np
import pytest

from bench import simulated
from orchestrator.analysis.statistics.steady import SteadyClass, judge

N = 40  # series a case; a rate of 95 % fails the 85 % asked for here once in 300

CASES = [
    (simulated.level, {"n": 150, "deviation": 0.05}, SteadyClass.STEADY),
    (simulated.level, {"n": 300, "deviation": 0.03, "phi": 0.5}, SteadyClass.STEADY),
    (simulated.level, {"n": 900, "deviation": 0.02, "phi": 0.8}, SteadyClass.STEADY),
    (simulated.mixed, {"n": 600, "deviation": 0.03}, SteadyClass.STEADY),
    (simulated.warmup, {"n": 150, "deviation": 0.02}, SteadyClass.STEADY),
    (simulated.early_shift, {"n": 150, "deviation": 0.02}, SteadyClass.STEADY),
    (simulated.small_drift, {"n": 150, "deviation": 0.01}, SteadyClass.STEADY),
    (simulated.short_cycle, {"n": 150, "deviation": 0.02}, SteadyClass.STEADY),
    (simulated.spikes, {"n": 150, "deviation": 0.02}, SteadyClass.STEADY),
    (simulated.heavy_tails, {"n": 150, "deviation": 0.03}, SteadyClass.STEADY),
    (simulated.buckets, {"n": 150, "deviation": 0.03}, SteadyClass.STEADY),
    (simulated.shift, {"n": 150, "deviation": 0.03}, SteadyClass.UNSTEADY),
    (simulated.shift, {"n": 250, "deviation": 0.03, "phi": 0.4}, SteadyClass.UNSTEADY),
    (simulated.long_cycle, {"n": 150, "deviation": 0.02}, SteadyClass.UNSTEADY),
    (simulated.drift, {"n": 150, "deviation": 0.02}, SteadyClass.DRIFTING),
    (simulated.drift, {"n": 250, "deviation": 0.02, "phi": 0.4}, SteadyClass.DRIFTING),
    (simulated.level, {"n": 45, "deviation": 0.02}, SteadyClass.TOO_SHORT),
    (simulated.level, {"n": 10, "deviation": 0.02}, SteadyClass.TOO_SHORT),
]


def _judge(durations, works):
    return judge(durations, works, [1] * len(durations))


@pytest.mark.parametrize(("generator", "options", "wanted"), CASES, ids=lambda value: getattr(value, "__name__", None))
def test_most_series_of_a_class_are_called_that_class(generator, options, wanted):
    rng = np.random.default_rng(20261121)
    states = [_judge(*generator(rng, **options)[:2]).state for _ in range(N)]
    assert states.count(wanted) >= 0.85 * N, states


def test_the_interval_of_steady_runs_covers_the_truth():
    rng = np.random.default_rng(5)
    covered = []
    for _ in range(200):
        durations, works, truth = simulated.level(rng, 160, 0.03, 0.3)
        steady = _judge(durations, works)
        if steady.state is SteadyClass.STEADY:
            rate = durations[steady.first :].sum() / works[steady.first :].sum()
            covered.append(abs(rate - truth) <= steady.error.half_width / works.mean())
    assert len(covered) > 150
    assert 0.90 <= np.mean(covered) <= 0.99


def test_warm_up_is_cut_where_it_ends_and_its_steps_and_seconds_are_counted():
    durations = np.concatenate([np.full(30, 2.0), np.full(120, 1.0)])
    durations += np.random.default_rng(1).normal(0, 0.01, 150)
    steady = judge(durations, np.ones(150), [2] * 150)
    assert steady.state is SteadyClass.STEADY
    assert 30 <= steady.first <= 35
    assert steady.warmup_steps == 2 * steady.first
    assert steady.warmup_s == pytest.approx(durations[: steady.first].sum())


def test_a_disturbance_in_the_middle_is_no_warm_up():
    rng = np.random.default_rng(2)
    durations = 1 + 0.01 * rng.standard_normal(150)
    durations[30:60] += 0.2
    assert _judge(durations, np.ones(150)).state is SteadyClass.UNSTEADY


def test_spikes_are_counted_and_stay_in_the_time():
    rng = np.random.default_rng(3)
    durations = 1 + 0.01 * rng.standard_normal(150)
    durations[[40, 90, 120]] += 1.0
    steady = _judge(durations, np.ones(150))
    assert steady.state is SteadyClass.STEADY
    assert steady.outliers == 3
    assert steady.outlier_time_ratio == pytest.approx(3 / 153, rel=0.1)


def test_a_run_that_jumps_between_two_speeds_is_unsteady():
    rng = np.random.default_rng(6)
    durations = np.where(rng.random(200) < 0.3, 3.0, 1.0) + 0.01 * rng.standard_normal(200)
    steady = _judge(durations, np.ones(200))
    assert steady.state is SteadyClass.UNSTEADY
    assert "stand out" in steady.reason


def test_many_small_spikes_are_taken_as_they_are():
    rng = np.random.default_rng(7)
    durations = 1 + 0.001 * rng.standard_normal(200) + 0.03 * (rng.random(200) < 0.2)
    assert _judge(durations, np.ones(200)).state is SteadyClass.STEADY


@pytest.mark.parametrize("value", [1.0, 0.1, 1e-6])
def test_equal_durations_are_steady(value):
    steady = _judge(np.full(100, value), np.ones(100))
    assert steady.state is SteadyClass.STEADY
    assert steady.error.effective == 100
