"""One cut for all runs of a cell."""

import math

import numpy as np
import pytest

from orchestrator.analysis.statistics.settling import Cut, cut_of, is_scout, mser, scouts, to_remember


def _runs(rng, n=100, count=6, start=0.0, fold=8.0, process=0.015, noise=0.03):
    """Time per work of runs that begin ``start`` above their level."""
    warm = 1 + start * np.exp(-np.arange(n) / fold)
    return [warm * (1 + process * rng.standard_normal()) + noise * rng.standard_normal(n) for _ in range(count)]


def test_mser_is_whites_statistic():
    series = np.array([9.0, 5.0, 1.0, 1.1, 0.9, 1.0, 1.2, 0.8, 1.2, 0.8])
    statistic = [((series[d:] - series[d:].mean()) ** 2).sum() / (10 - d) ** 2 for d in range(6)]
    assert mser(series) == int(np.argmin(statistic)) == 2


def test_a_warm_up_is_cut_with_three_quarters_more():
    cut = cut_of(_runs(np.random.default_rng(1), start=0.5))
    assert 16 <= cut.mser <= 33
    assert cut.first == cut.own == min(50, math.ceil(1.75 * cut.mser))
    assert cut.settled
    assert cut.reason is None


def test_spikes_do_not_draw_the_cut():
    rng = np.random.default_rng(7)
    runs = _runs(rng)
    calm = cut_of(runs)
    for run in runs:
        run[rng.integers(10, 90)] += 2.0
    assert abs(cut_of(runs).mser - calm.mser) <= 5


def test_level_runs_keep_most_of_their_intervals():
    rng = np.random.default_rng(2)
    cuts = [cut_of(_runs(rng)) for _ in range(200)]
    assert np.median([cut.first for cut in cuts]) <= 20
    assert np.mean([cut.settled for cut in cuts]) >= 0.85


def test_the_larger_of_the_own_and_the_remembered_cut_counts():
    runs = _runs(np.random.default_rng(3), n=140, start=0.5)
    own = cut_of(runs).first
    assert own + 7 <= 70
    assert cut_of(runs, remembered=own + 7).first == own + 7
    assert cut_of(runs, remembered=own - 7).first == own
    assert cut_of(runs, remembered=own + 7).own == own


def test_a_remembered_cut_longer_than_the_runs_leaves_half_of_them_and_is_said():
    cut = cut_of(_runs(np.random.default_rng(3), n=60), remembered=70)
    assert (cut.first, cut.settled) == (30, False)
    assert cut.reason == "the warm-up takes 70 of 60 intervals or more: runs are too short for it"


def test_a_warm_up_as_long_as_the_runs_is_not_settled_and_says_so():
    cut = cut_of(_runs(np.random.default_rng(4), n=60, start=0.5, fold=60.0))
    assert not cut.settled
    assert "the warm-up takes" in cut.reason or "first third" in cut.reason


def test_what_moves_in_all_runs_alike_is_not_settled():
    drift = np.linspace(0, 0.02, 90)
    cut = cut_of([run + drift for run in _runs(np.random.default_rng(5), n=90, noise=0.02)])
    assert not cut.settled
    assert "% less time than the last half (± " in cut.reason


def test_runs_of_other_lengths_are_aligned_by_interval_and_the_very_short_have_no_say():
    rng = np.random.default_rng(6)
    long = _runs(rng, n=120, start=0.5)
    assert cut_of([*long, _runs(rng, n=20, count=1)[0]]) == cut_of(long)
    assert cut_of([run[: 100 + 3 * k] for k, run in enumerate(long)]).first > 20


def test_a_run_of_constant_time_has_nothing_to_cut():
    assert cut_of([np.full(60, 0.02)] * 3) == Cut(0, 0, 0, True)
    assert cut_of([np.array([1.0])]).first == 0


def test_nothing_to_cut_from_is_an_error():
    with pytest.raises(ValueError, match="a run with intervals"):
        cut_of([])
    with pytest.raises(ValueError, match="a run with intervals"):
        cut_of([np.zeros(0)])


def test_runs_shorter_than_three_cuts_are_scouts_unless_nothing_else_is_left():
    assert is_scout(59, 20)
    assert not is_scout(60, 20)
    assert scouts([59, 59, 60, 80], 20) == {0, 1}
    assert scouts([59, 59, 59, 60, 80], 20) == frozenset()
    assert scouts([59, 59, 60], 20) == frozenset()
    assert scouts([30, 30], 0) == frozenset()
    assert scouts([20, 140, 140, 140], 50) == {0}
    assert scouts([100, 140, 140, 140], 50) == frozenset()


def test_the_middle_of_the_sessions_cuts_is_remembered():
    assert to_remember([]) is None
    assert to_remember([Cut(40, own, own, True) for own in (10, 40, 12)]) == 12
