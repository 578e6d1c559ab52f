"""How noisy a machine is, on simulated processes whose noise is known."""

import json
import math

import numpy as np
import pytest
from scipy import stats

from bench.simulated import autoregressive
from orchestrator.analysis.probe import noise

MEAN_S = 0.025


def processes(seed, count=20, intervals=120, between=0.02, within=0.05, phi=0.0):
    """Interval times of fresh processes: each has a mean of its own, and AR(1) noise around it."""
    rng = np.random.default_rng(seed)
    means = 1 + between * rng.standard_normal(count)
    return [MEAN_S * (mean + within * autoregressive(rng, intervals, phi)) for mean in means]


def test_each_kind_of_noise_is_told_with_its_own_size():
    found = noise.judge(processes(1, count=60, between=0.03, within=0.06, phi=0.4))
    assert found.interval_time_s == pytest.approx(MEAN_S, rel=0.02)
    assert found.between_ratio == pytest.approx(0.03, rel=0.25)
    assert found.within_ratio == pytest.approx(0.06, rel=0.1)
    assert found.autocorrelation == pytest.approx(0.4, abs=0.06)
    assert found.worth == pytest.approx(120 * 0.6 / 1.4, rel=0.25)  # (1 - phi) / (1 + phi) of an AR(1)
    assert (found.processes, found.intervals, found.alike) == (60, 120, False)


def test_what_longer_runs_would_take_away_is_not_the_processes_own():
    alike = noise.judge(processes(2, count=60, between=0.0, within=0.2))
    assert alike.between_ratio == pytest.approx(0.2 / math.sqrt(120), rel=0.25)
    assert alike.process_ratio < 0.5 * alike.between_ratio
    different = noise.judge(processes(3, count=60, between=0.03, within=0.05))
    assert different.process_ratio == pytest.approx(different.between_ratio, rel=0.05)


def test_the_interval_of_the_deviation_holds_the_true_one_in_95_of_100_machines():
    rng = np.random.default_rng(8)
    found = [noise.deviation_of(1 + 0.04 * rng.standard_normal(12)) for _ in range(1000)]
    assert 0.93 <= np.mean([low <= 0.04 <= high for _, low, high in found]) <= 0.97


def test_on_white_noise_hardly_a_machine_has_levels_and_few_neighbours_are_called_alike():
    machines = [[np.asarray(one) for one in processes(seed, phi=0.3)] for seed in range(20)]
    assert sum(bool(noise._shifts(series)) for series in machines) <= 1
    assert sum(noise._neighbours([one.mean() for one in series])[1] for series in machines) <= 1


def test_a_change_of_level_inside_a_process_is_found_where_it_is():
    series = processes(4, within=0.03)
    series[7][50:] *= 1.10
    (shift,) = noise.judge(series).shifts
    assert shift.process == 7
    assert shift.interval == pytest.approx(50, abs=4)
    assert shift.ratio == pytest.approx(1.10, abs=0.02)


def test_spikes_are_no_levels():
    series = processes(5, within=0.02)
    for one in series:
        one[20::40] *= 3.0
    found = noise.judge(series)
    assert found.shifts == []
    assert found.spikes_ratio == pytest.approx(3 / 120, rel=0.3)


def test_levels_that_outlast_a_process_show_in_its_neighbours():
    series = processes(6, between=0.005, within=0.03)
    for one in series[5:13]:
        one *= 1.07
    found = noise.judge(series)
    assert found.alike
    assert found.neighbours > 0.5


@pytest.mark.parametrize(("target", "deviation"), [(0.01, 0.041), (0.02, 0.016), (0.05, 0.041), (0.01, 0.001)])
def test_the_runs_for_a_half_width_are_enough_and_one_fewer_is_not(target, deviation):
    runs = noise.runs_for_half_width(target, deviation)

    def half_width(n):
        return stats.t.ppf(0.975, n - 1) * deviation / math.sqrt(n)

    assert math.expm1(half_width(runs)) <= target
    assert runs == 2 or math.expm1(half_width(runs - 1)) > target


@pytest.mark.parametrize(("target", "deviation"), [(0.05, 0.04), (0.02, 0.016)])
def test_the_runs_for_a_difference_find_it_in_80_of_100_experiments(target, deviation):
    runs = noise.runs_for_difference(target, deviation)
    rng = np.random.default_rng(7)
    a, b = rng.normal(0, deviation, (2000, runs)), rng.normal(math.log1p(target), deviation, (2000, runs))
    found = stats.ttest_ind(a, b, axis=1).pvalue < 0.05
    assert found.mean() == pytest.approx(0.80, abs=0.04)


def test_a_machine_without_noise_needs_two_runs_and_a_hopeless_one_has_no_number():
    assert noise.runs_needed(0.01, 0.0, 0.0) == noise.RunsNeeded(0.01, 2, 2, 2, 2)
    assert noise.runs_needed(0.01, 5.0, 9.0) == noise.RunsNeeded(0.01, None, None, None, None)
    still = noise.judge([[0.25] * 20] * 3)
    assert still.between_ratio == still.within_ratio == still.autocorrelation == 0.0
    assert still.shifts == []
    json.dumps(still.to_json(), allow_nan=False)


@pytest.mark.parametrize(
    "series", [[], [[1.0] * 20] * 2, [[1.0] * 19] * 3, [[1.0] * 19 + [0.0]] * 3, [[1.0] * 19 + [math.nan]] * 3]
)
def test_too_little_or_impossible_times_are_refused(series):
    with pytest.raises(ValueError, match=r"noise takes|positive and finite"):
        noise.judge(series)
