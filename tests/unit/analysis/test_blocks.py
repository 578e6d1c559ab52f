"""The cells of one experiment against each other."""

import math
import re

import numpy as np
import pytest
from scipy import stats

from orchestrator.analysis.statistics.blocks import ADJUSTED, PAIRED, compare_groups, detectable


def _rates(logs, names="abcdefghijkl"):
    """Cells named by letters from logarithms of the shape (cells, blocks)."""
    return {names[i]: {b: math.exp(value) for b, value in enumerate(row)} for i, row in enumerate(np.asarray(logs))}


def _experiments(rng, cells, blocks, deviations, shifts=0.0, levels=0.0):
    noise = np.asarray(deviations)[:, None] * rng.standard_normal((cells, blocks))
    return _rates(noise + np.broadcast_to(shifts, (cells,))[:, None] + levels * rng.standard_normal(blocks))


def compare_cells(rates, baseline=None):
    return compare_groups([rates], baseline)[0]


def test_two_cells_are_paired_by_block():
    rng = np.random.default_rng(1)
    y = rng.normal(0, 0.04, (2, 6)) + np.array([[0.0], [0.1]])
    (pair,) = compare_cells(_rates(y))
    assert (pair.a, pair.b, pair.blocks, pair.family, pair.method) == ("a", "b", 6, 1, PAIRED)
    assert pair.p == pytest.approx(stats.ttest_rel(y[1], y[0]).pvalue)
    low, high = stats.ttest_rel(y[1], y[0]).confidence_interval(0.95)
    assert (pair.ci_low, pair.ci_high) == (pytest.approx(math.exp(low)), pytest.approx(math.exp(high)))
    assert pair.verdict == "faster"
    assert pair.text == f"b {pair.ratio:.3g} x a ({pair.ci_low:.3g} to {pair.ci_high:.3g})"


@pytest.mark.parametrize("cells", [2, 3, 12])
def test_runs_that_differ_a_hundredfold_are_compared_and_tell_nothing(cells):
    """Of two blocks the interval's ends are beyond what a number can hold."""
    y = np.zeros((cells, 2))
    y[0] = -math.log(100), math.log(100)
    pair = compare_cells(_rates(y * (1 + np.arange(cells))[:, None] + np.arange(cells)[:, None] * 0.01))[0]
    assert pair.verdict == "cannot_tell"
    assert 0 < pair.ci_low < pair.ratio < pair.ci_high < math.inf
    assert math.isfinite(pair.detectable_ratio)


def test_what_a_block_has_in_common_is_no_difference():
    quiet = np.array([[0.0, 0.01, -0.01, 0.0, 0.01, 0.0], [0.1, 0.1, 0.09, 0.11, 0.1, 0.1]])
    slow = 0.3 * np.arange(6)
    (pair,), (calm,) = compare_cells(_rates(quiet + slow)), compare_cells(_rates(quiet))
    assert pair.ratio == pytest.approx(calm.ratio)
    assert pair.p == pytest.approx(calm.p)
    four = [*quiet, *quiet[::-1]]
    moved, still = compare_cells(_rates(np.array(four) + slow)), compare_cells(_rates(four))
    assert [one.p for one in moved] == pytest.approx([one.p for one in still])


def test_blocks_that_a_cell_lacks_are_left_out_of_its_pairs():
    rates = _rates(np.random.default_rng(2).normal(0, 0.02, (3, 6)))
    del rates["b"][0], rates["b"][4]
    found = {(pair.a, pair.b): pair for pair in compare_cells(rates)}
    assert [found[pair].blocks for pair in [("a", "b"), ("a", "c"), ("b", "c")]] == [4, 6, 4]


def test_a_cell_without_two_common_blocks_has_too_few_runs_and_hides_no_other():
    rates = _rates(np.random.default_rng(3).normal(0, 0.02, (3, 6)))
    rates["b"] = {5: 1.0}
    found = {(pair.a, pair.b): pair for pair in compare_cells(rates)}
    assert found["a", "b"].verdict == found["b", "c"].verdict == "too_few_runs"
    assert found["a", "c"].ratio is not None


def test_four_cells_have_welchs_t_on_what_blocks_leave_with_grubbs_variances():
    y = np.random.default_rng(4).normal(0, 0.03, (5, 6)) * [[1], [1], [1], [2], [3]]
    pair = next(pair for pair in compare_cells(_rates(y)) if (pair.a, pair.b) == ("d", "e"))
    residuals = y - y.mean(axis=0) - y.mean(axis=1)[:, None] + y.mean()
    s = (residuals**2).sum(axis=1) / 5
    own = np.maximum.reduce([s, 5 / 3 * (s - s.mean() / 4), np.full(5, 0.5 * np.median(s) * 5 / 4)])
    parts = own[3:] / 6
    degrees = parts.sum() ** 2 / (parts**2 / 5).sum()
    assert pair.method == ADJUSTED
    difference = y[4].mean() - y[3].mean()
    assert math.log(pair.ratio) == pytest.approx(difference)
    assert pair.p == pytest.approx(2 * stats.t.sf(abs(difference) / math.sqrt(parts.sum()), degrees))


def test_missing_runs_of_four_cells_are_made_up_for_by_least_squares():
    rng = np.random.default_rng(5)
    logs = rng.normal(0, 0.01, (4, 8)) + np.linspace(0, 0.5, 8) + np.array([[0.0], [0.1], [0.2], [0.3]])
    rates = _rates(logs)
    for block in range(5):
        del rates["a"][block]  # only the slow blocks are left
    pair = compare_cells(rates, baseline="a")[0]
    assert math.log(pair.ratio) == pytest.approx(0.1, abs=0.02)
    assert pair.verdict == "faster"


def test_cells_that_no_block_joins_are_not_compared():
    rates = {"a": {0: 1.0, 1: 1.1}, "b": {0: 1.0, 1: 1.2}, "c": {2: 1.0, 3: 1.1}, "d": {2: 1.0, 3: 1.2}}
    found = {(pair.a, pair.b): pair.verdict for pair in compare_cells(rates)}
    assert found["a", "c"] == found["b", "d"] == "too_few_runs"
    assert found["a", "b"] != "too_few_runs"


def test_holm_adjusts_over_the_declared_family_and_a_baseline_declares_a_smaller_one():
    rates = _rates(np.random.default_rng(6).normal(0, 0.03, (3, 6)) + np.array([[0.0], [0.03], [0.05]]))
    pairs = compare_cells(rates)
    ordered = sorted(pairs, key=lambda pair: pair.p)
    steps = [min(1.0, pair.p * (3 - rank)) for rank, pair in enumerate(ordered)]
    assert [pair.p_holm for pair in ordered] == pytest.approx([max(steps[: k + 1]) for k in range(3)])
    smaller = compare_cells(rates, baseline="b")
    assert [(pair.a, pair.b, pair.family) for pair in smaller] == [("b", "a", 2), ("b", "c", 2)]


def test_all_pairs_of_all_groups_are_one_family_and_each_group_has_the_method_of_its_size():
    rng = np.random.default_rng(12)
    small, large = _rates(rng.normal(0, 0.03, (2, 6))), _rates(rng.normal(0, 0.03, (4, 6)))
    found = compare_groups([small, large])
    assert [{pair.method for pair in pairs} for pairs in found] == [{PAIRED}, {ADJUSTED}]
    pairs = [pair for group in found for pair in group]
    assert [pair.family for pair in pairs] == [7] * 7
    alone = compare_cells(small) + compare_cells(large)
    assert [pair.p for pair in pairs] == [pair.p for pair in alone]
    least = min(range(7), key=lambda index: pairs[index].p)
    assert pairs[least].p_holm == pytest.approx(min(1.0, 7 * pairs[least].p))
    assert pairs[0].detectable_ratio > alone[0].detectable_ratio


def test_a_group_without_the_baseline_adds_nothing_to_the_family_and_a_cell_without_runs_stays_in_it():
    rng = np.random.default_rng(13)
    with_it, without = _rates(rng.normal(0, 0.03, (3, 6))), _rates(rng.normal(0, 0.03, (2, 6)), "xy")
    with_it["c"] = {}
    found = compare_groups([with_it, without], baseline="a")
    assert [len(pairs) for pairs in found] == [2, 0]
    assert [(pair.verdict == "too_few_runs", pair.family) for pair in found[0]] == [(False, 2), (True, 2)]
    assert compare_groups([without], baseline="a") == [[]]


@pytest.mark.parametrize("cells", [2, 4])
def test_after_a_first_stage_more_blocks_tell_the_difference_but_not_the_noise(cells):
    rng = np.random.default_rng(14)
    logs = rng.normal(0, 0.03, (cells, 6))
    wild = np.concatenate([logs, 0.3 * rng.standard_normal((cells, 6))], axis=1)
    (first, *_), (whole, *_) = compare_groups([_rates(logs)])[0], compare_groups([_rates(wild)], stage=range(6))[0]
    assert math.log(whole.ratio) == pytest.approx(wild[1].mean() - wild[0].mean())
    assert math.log1p(whole.detectable_ratio) == pytest.approx(math.log1p(first.detectable_ratio) / math.sqrt(2))
    assert whole.blocks == 12


@pytest.mark.parametrize("cells", [2, 4])
def test_equal_cells_that_were_repeated_for_a_precision_are_told_apart_in_one_of_twenty_or_fewer(cells):
    rng = np.random.default_rng(15)
    wrong = 0
    for _ in range(200):
        first = rng.normal(0, 0.04, (cells, 6))
        more = int(3000 * first.std(axis=1, ddof=1).max() ** 2)
        logs = np.concatenate([first, rng.normal(0, 0.04, (cells, more))], axis=1)
        pairs = compare_groups([_rates(logs)], stage=range(6))[0]
        wrong += any(pair.verdict != "cannot_tell" for pair in pairs)
    assert wrong / 200 <= 0.08


def test_wide_intervals_are_written_without_exponents():
    (pair,) = compare_cells({"a": {0: 1.0, 1: 1.3}, "b": {0: 1.3, 1: 1.0}})
    assert pair.verdict == "cannot_tell"
    assert re.fullmatch(r"cannot tell even 100 %; \d+ more runs would tell 41 %", pair.text)


def test_the_interval_leaves_out_one_exactly_where_there_is_a_verdict():
    rng = np.random.default_rng(7)
    verdicts = set()
    for cells in (2, 3, 4, 6):
        for _ in range(10):
            shifts = rng.choice([0.0, 0.04], cells)
            for pair in compare_cells(_experiments(rng, cells, 6, [0.03] * cells, shifts)):
                verdicts.add(pair.verdict)
                told = pair.ci_low > 1 or pair.ci_high < 1
                assert told == (pair.verdict in ("faster", "slower"))
                assert (pair.verdict == "faster") == (pair.ci_low > 1)
    assert verdicts == {"faster", "slower", "cannot_tell"}


def test_where_it_cannot_tell_it_says_what_would():
    pair = compare_cells(_rates(np.random.default_rng(11).normal(0, 0.04, (2, 6))))[0]
    assert pair.verdict == "cannot_tell"
    # A pair of two cells has blocks - 1 degrees of freedom: so many more are just enough for half of the difference.
    wanted, error = math.log1p(pair.detectable_ratio) / 2, math.log1p(pair.detectable_ratio) / detectable(1.0, 5, 0.05)

    def least(blocks):
        return detectable(error * math.sqrt(6 / blocks), blocks - 1, 0.05)

    assert least(6 + pair.more_runs) <= wanted < least(6 + pair.more_runs - 1)
    half = 100 * math.expm1(math.log1p(pair.detectable_ratio) / 2)
    assert pair.text == (
        f"cannot tell below {100 * pair.detectable_ratio:.2g} %; {pair.more_runs} more runs would tell {half:.2g} %"
    )


def test_the_difference_called_detectable_is_found_in_four_of_five():
    rng = np.random.default_rng(9)
    shift = detectable(0.04 * math.sqrt(2 / 6), 5, 0.05)
    found = [compare_cells(_experiments(rng, 2, 6, [0.04, 0.04], [0.0, shift]))[0].verdict for _ in range(500)]
    assert found.count("faster") / 500 == pytest.approx(0.8, abs=0.05)


@pytest.mark.parametrize("deviations", [[0.04] * 4, [0.05, 0.001, 0.001, 0.001], [0.05, 0.05, 0.001, 0.001, 0.001]])
def test_equal_cells_are_called_different_in_one_experiment_of_twenty_or_fewer(deviations):
    rng = np.random.default_rng(10)
    wrong = [
        any(
            pair.verdict != "cannot_tell"
            for pair in compare_cells(_experiments(rng, len(deviations), 6, deviations, levels=0.05))
        )
        for _ in range(200)
    ]
    assert np.mean(wrong) <= 0.08


def test_runs_that_never_vary_are_told_apart():
    (pair,) = compare_cells({"a": dict.fromkeys(range(3), 1.0), "b": dict.fromkeys(range(3), 2.0)})
    assert (pair.verdict, pair.p, pair.detectable_ratio) == ("faster", 0.0, 0.0)
    (same,) = compare_cells({"a": dict.fromkeys(range(3), 1.0), "b": dict.fromkeys(range(3), 1.0)})
    assert same.verdict == "cannot_tell"


def test_what_cannot_be_compared_is_an_error():
    with pytest.raises(ValueError, match="positive rates"):
        compare_cells({"a": {0: 1.0}, "b": {0: 0.0}})
