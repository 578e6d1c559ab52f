"""Error bars over runs."""

import math

import numpy as np
import pytest

from orchestrator.analysis.cell.between_runs import compare, detectable, over_runs, pooled_deviation
from orchestrator.analysis.cell.lending import Lent, Movement, Session, movement_of
from orchestrator.domain.value.measurement import Measurement


def _run(value, **more):
    given = {"ci_low": value and value * 0.99, "ci_high": value and value * 1.01, "n": 60.0, "scope": "this run only"}
    return Measurement(
        metric="throughput", value=value, unit="images/s", method="m", confidence=0.95, **{**given, **more}
    )


def test_the_interval_comes_from_the_variance_between_runs_by_students_t():
    cell = over_runs([_run(10.0 * math.exp(d)) for d in (-0.1, 0.0, 0.1)])
    assert cell.value == pytest.approx(10.0), "the geometric mean"
    half = 4.3027 * 0.1 / math.sqrt(3)
    assert (cell.ci_low, cell.ci_high) == pytest.approx((10.0 * math.exp(-half), 10.0 * math.exp(half)), rel=1e-4)
    assert cell.n == 3
    assert "these devices" in cell.scope


def test_a_single_run_has_a_value_and_no_interval():
    cell = over_runs([_run(10.0), _run(None)])
    assert cell.value == 10.0
    assert (cell.ci_low, cell.ci_high, cell.confidence) == (None, None, None)
    assert "a single run: no interval" in cell.scope


def test_history_lends_a_cell_of_few_runs_its_deviation_and_says_from_how_many():
    lent = Lent(0.02, 0.05, 5, "deviation between runs of 2.0% lent by 5 earlier sessions")
    single, pair = over_runs([_run(10.0)], lent=lent), over_runs([_run(9.9), _run(10.1)], lent=lent)
    assert single.ci_high / single.value == pytest.approx(math.exp(0.05))
    assert pair.ci_high / pair.value == pytest.approx(math.exp(0.05 / math.sqrt(2)))
    assert "lent by 5 earlier sessions" in single.scope
    assert "history" in pair.method


def test_a_cell_of_three_runs_or_of_several_nodes_is_lent_nothing():
    lent = Lent(0.02, 0.05, 5, "lent")
    three = [_run(value) for value in (9.0, 10.0, 11.0)]
    assert over_runs(three, lent=lent) == over_runs(three)
    apart = over_runs([_run(9.9), _run(10.1)], places=["a", "b"], lent=lent)
    assert "lent" not in apart.scope


@pytest.mark.parametrize(
    ("metric", "values", "wanted"),
    [
        ("step_time_s", (0.01, 1.0), (0.1, 0.0, 1e24)),  # a hundredfold: two runs know nothing of it
        ("throughput", (1e-200, 1e200), (1.0, 0.0, math.inf)),
        ("throughput", (0.0, 2.0), (1.0, 0.0, 13.71)),  # a logarithm takes no 0: as they are
        ("power_w", (0.0, 0.0), (0.0, 0.0, 0.0)),
        ("input_ratio", (0.0, 0.2), (0.1, 0.0, 1.371)),
        ("loss_last", (-1.0, 1.0), (0.0, -12.71, 12.71)),  # below 0 is where it may be
        ("memory_residual_ratio", (-0.02, -0.04), (-0.03, -0.1571, 0.0971)),
    ],
)
def test_an_interval_reaches_below_0_only_where_its_metric_may(metric, values, wanted):
    cell = over_runs([Measurement(metric, value, "u", "m") for value in values])
    value, low, high = wanted
    assert cell.value == pytest.approx(value, rel=1e-3)
    assert cell.ci_low == pytest.approx(low, rel=1e-3, abs=1e-9)
    assert (cell.ci_low > 0) == (min(values) > 0)
    assert cell.ci_high <= high * 1.001
    assert math.isfinite(cell.ci_high)
    assert ("geometric" in cell.method) == (metric in ("step_time_s", "throughput") and min(values) > 0)


def test_rates_and_times_of_the_same_runs_say_the_same():
    rates = (8.0, 10.0, 13.0)
    rate = over_runs([_run(value) for value in rates])
    time = over_runs([Measurement("step_time_s", 1 / value, "s", "m") for value in rates])
    assert (1 / time.value, 1 / time.ci_high) == pytest.approx((rate.value, rate.ci_low))


def test_runs_of_different_metrics_are_not_mixed():
    with pytest.raises(ValueError, match="one metric"):
        over_runs([_run(1.0), Measurement("step_time_s", 1.0, "s", "m")])
    with pytest.raises(ValueError, match="one metric"):
        over_runs([])


def test_the_interval_of_three_runs_covers_the_truth():
    rng = np.random.default_rng(1)
    cells = [over_runs([_run(float(v)) for v in rng.normal(100, 2, 3)]) for _ in range(2000)]
    assert 0.935 <= np.mean([cell.ci_low <= 100 <= cell.ci_high for cell in cells]) <= 0.965


def test_three_runs_a_side_find_three_deviations():
    """FACTS: 3.07 standard deviations with 80 % probability."""
    assert detectable(1.0, 3, 3) == pytest.approx(3.07, abs=0.005)
    assert detectable(2.0, 3, 3) == pytest.approx(6.14, abs=0.01)
    assert detectable(1.0, 1, 1) == math.inf
    assert detectable(0.0, 3, 3) == 0.0


def test_a_slower_candidate_is_called_slower():
    found = compare([100.0, 101.0, 99.0], [90.0, 91.0, 89.5])
    assert found.verdict == "slower"
    assert found.ci_low < found.ratio < found.ci_high < 1.0
    assert found.text.startswith("slower: -")


def test_where_it_cannot_tell_it_says_what_it_would_have_seen():
    found = compare([100.0, 101.0, 99.0], [100.0, 98.0, 101.5])
    assert found.verdict == "no_difference_found"
    assert found.text.startswith(f"cannot tell below {found.detectable_ratio:.1%}: ")


def test_a_single_run_a_side_cannot_be_compared():
    found = compare([100.0], [90.0, 91.0])
    assert found.verdict == "too_few_runs"
    assert found.ci_low is None


def test_equal_cells_are_called_different_in_one_case_of_twenty():
    rng = np.random.default_rng(2)
    verdicts = [compare([*rng.normal(100, 1, 3)], [*rng.normal(100, 4, 3)]).verdict for _ in range(1500)]
    assert verdicts.count("no_difference_found") / 1500 >= 0.93


def test_rates_must_be_positive():
    with pytest.raises(ValueError, match="positive"):
        compare([1.0, 0.0], [1.0])


def test_the_pooled_deviation_weighs_groups_by_their_freedom():
    assert pooled_deviation([[1.0, 3.0], [5.0], [2.0, 2.0, 2.0]]) == pytest.approx(math.sqrt(2 / 3))


def test_two_sessions_are_compared_with_how_far_the_series_moves_between_them():
    a, b = [100.0, 101.0, 99.0, 100.5], [96.0, 97.0, 95.0, 96.5]
    blind = compare(a, b, apart=True)
    assert blind.verdict == "slower"
    assert "not known" in blind.text
    known = compare(a, b, apart=True, movement=Movement(0.02, 6, 7))
    assert known.verdict == "no_difference_found"
    assert known.detectable_ratio > blind.detectable_ratio
    assert "between sessions" in known.method
    together = compare(a, b, movement=Movement(0.02, 6, 7))
    assert (together.ci_low, together.text) == (compare(a, b).ci_low, compare(a, b).text)


def test_equal_sessions_of_a_series_that_moves_are_called_different_in_one_case_of_twenty():
    rng = np.random.default_rng(3)
    called = []
    for _ in range(400):
        levels = 100 * np.exp(0.03 * rng.standard_normal(7))
        sessions = [Session(tuple(rng.normal(level, 1.0, 4)), 0.0, 60) for level in levels]
        found = compare(sessions[-2].rates, sessions[-1].rates, apart=True, movement=movement_of(sessions[:-2]))
        called.append(found.verdict != "no_difference_found")
    assert np.mean(called) <= 0.07
