"""A quick version of ``make coverage`` for cells: few cases, fixed seeds, wide margins."""

import numpy as np
import pytest

from bench import cells, differences, held_out_cells, machines
from orchestrator.analysis.statistics.blocks import compare_groups
from orchestrator.analysis.statistics.settling import cut_of

ALL = {**machines.PROMISED, **machines.SPIKES, **machines.RARE, **machines.MOVING, **machines.UNEQUAL}


@pytest.mark.parametrize("kind", ["AR(1) 0.8", "warm-up +50 %", "spikes in 3 %", "recorded: one at a time"])
def test_every_cell_prints_an_interval_that_holds_the_truth(kind):
    found = cells.measure(ALL[kind], 100, seed=1)
    assert found.printed == 1.0
    assert found.coverage >= 0.88


def test_the_generator_that_was_kept_out_is_covered():
    found = cells.measure(held_out_cells.cells, 100, seed=2)
    assert found.printed == 1.0
    assert found.coverage >= 0.87


def test_levels_leave_the_mean_over_the_experiments_own_time_in_the_interval():
    found = cells.measure(ALL["levels of 30 s"], 60, seed=3)
    assert found.coverage >= 0.9
    assert len(found.held_long) == 60


@pytest.mark.parametrize("kind", ALL)
def test_a_generator_makes_what_it_says(kind):
    times, truth, _ = ALL[kind](np.random.default_rng(4), (40, 3, 6, 120))
    assert times.shape == (40, 3, 6, 120)
    assert times.min() > 0
    late = times[..., 60:].mean(axis=(1, 2, 3)) / truth
    assert late.mean() == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize(("count", "baseline"), [(2, False), (3, False), (4, False), (6, True)])
def test_the_comparison_on_arrays_is_the_products(count, baseline):
    rng = np.random.default_rng(5)
    logs = 0.03 * rng.standard_normal((4, count, 6)) + 0.03 * rng.standard_normal((4, 1, 6))
    logs[:, 0] += 0.06
    pairs = differences.family(count, baseline)
    p = differences.p_values(logs, pairs)
    called = differences.holm(p)
    for experiment in range(4):
        rates = {c: dict(enumerate(np.exp(logs[experiment, c]))) for c in range(count)}
        found = compare_groups([rates], 0 if baseline else None)[0]
        assert [(pair.a, pair.b) for pair in found] == pairs
        assert [pair.p for pair in found] == pytest.approx(list(p[experiment]))
        assert [pair.verdict != "cannot_tell" for pair in found] == list(called[experiment])


def test_the_cut_on_arrays_is_the_products():
    times, _, _ = machines.warm_up(np.random.default_rng(6), (3, 2, 6, 100), size=0.5)
    logs = differences.log_rates(times)
    for experiment, cell in np.ndindex(3, 2):
        first = cut_of(list(times[experiment, cell])).first
        by_hand = -np.log(times[experiment, cell][:, first:].mean(axis=1))
        assert logs[experiment, cell] == pytest.approx(by_hand)


def test_equal_cells_are_rarely_called_different_and_a_tenth_is_mostly_found():
    assert differences.false_differences(ALL["white"], 4, 300, seed=7) <= 0.09
    assert differences.power(machines.level, 2, 200, seed=8) >= 0.9
