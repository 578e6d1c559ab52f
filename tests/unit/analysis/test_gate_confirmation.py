"""Confirmations of the regression gate. How often they are right: ``bench/test_gate_figures.py``."""

import math

import numpy as np
import pytest
from scipy import special

from orchestrator.analysis.gate import confirmation
from orchestrator.analysis.gate.confirmation import LEAST_BLOCKS, LEVEL, MOST_BLOCKS, Design, design, judge
from orchestrator.analysis.statistics.autocorrelation import Floats

DEVIATION = 0.017  # of a block


def rates(seed: int, loss: float, blocks: int) -> tuple[Floats, Floats]:
    """Of old and new; blocks differ by 20 %, which no ratio of them shows."""
    rng = np.random.default_rng(seed)
    old = 100.0 * np.exp(0.2 * rng.standard_normal(blocks))
    return old, old * (1 - loss) * np.exp(DEVIATION * rng.standard_normal(blocks))


@pytest.mark.parametrize(("loss", "expected"), [(0.03, "slower"), (0.0, "no_such_loss"), (-0.03, "no_such_loss")])
def test_it_goes_on_until_it_can_tell_and_then_stays_with_that(loss: float, expected: str) -> None:
    plan = design(0.015, DEVIATION, 80)
    old, new = rates(1, loss, plan.most_blocks)
    first = judge(plan, old, new)
    assert first.answer == expected
    assert LEAST_BLOCKS <= first.blocks < plan.most_blocks
    assert {judge(plan, old[:n], new[:n]).answer for n in range(first.blocks)} == {"go_on"}
    assert judge(plan, old[: first.blocks], new[: first.blocks]) == first


def test_the_effect_is_told_with_an_interval_and_in_words() -> None:
    plan = design(0.015, DEVIATION, 80)
    found = judge(plan, *rates(2, 0.03, plan.most_blocks))
    assert found.low is not None
    assert found.effect is not None
    assert found.high is not None
    assert -0.06 < found.low < found.effect < found.high < 0.0
    interval = f"(95 % interval {found.low:+.1%} to {found.high:+.1%})"
    assert found.text == f"slower: {found.effect:+.1%} {interval}, after {found.blocks} blocks"


def test_a_budget_that_is_too_small_ends_in_cannot_tell() -> None:
    plan = design(0.002, DEVIATION, 10)
    assert plan.most_blocks == 10
    found = judge(plan, *rates(3, 0.001, 10))
    assert (found.answer, found.blocks) == ("cannot_tell", 10)
    assert "cannot tell a loss of 0.2% within 10 blocks" in found.text


def test_more_noise_or_a_smaller_loss_takes_more_blocks() -> None:
    blocks = [
        design(size, deviation, 1000).most_blocks for size, deviation in ((0.05, 0.01), (0.02, 0.01), (0.02, 0.02))
    ]
    assert blocks == sorted(set(blocks))
    assert design(0.5, 0.0, 9).most_blocks == LEAST_BLOCKS


@pytest.mark.parametrize("budget", [-1, 0, 3])
def test_a_budget_of_nothing_is_refused(budget: int) -> None:
    with pytest.raises(ValueError, match=f"a budget of {budget} blocks tells nothing: it takes 4"):
        design(0.02, DEVIATION, budget)


@pytest.mark.parametrize(
    ("loss", "deviation"), [(0.0, 0.01), (1.0, 0.01), (math.nan, 0.01), (0.02, -1.0), (0.02, math.inf)]
)
def test_numbers_that_make_no_sense_are_refused(loss: float, deviation: float) -> None:
    with pytest.raises(ValueError, match=r"is none that can be asked for|is no standard deviation"):
        design(loss, deviation, 10)


@pytest.mark.parametrize(
    ("old", "new"),
    [([1.0], []), ([1.0] * 5, [1.0] * 4 + [0.0]), ([1.0, math.nan], [1.0, 1.0]), ([1.0] * 99, [1.0] * 99)],
)
def test_what_are_no_blocks_is_refused(old: list[float], new: list[float]) -> None:
    with pytest.raises(ValueError, match=r"are no blocks of a plan|positive rates"):
        judge(Design(0.02, 20), old, new)


def test_rates_that_never_vary_are_no_division_by_zero() -> None:
    assert judge(Design(0.02, 20), [100.0] * 6, [100.0] * 6).answer == "no_such_loss"
    slower = judge(Design(0.02, 20), [100.0] * 6, [90.0] * 6)
    assert (slower.answer, slower.effect) == ("slower", pytest.approx(-0.1, abs=1e-3))


@pytest.mark.parametrize("level", [LEVEL, 0.01])
def test_the_boundaries_are_those_of_a_normal_walk_and_spend_the_level(level: float) -> None:
    normal = np.array(confirmation._normal_boundaries(24, level))
    assert (np.diff(normal) <= 1e-6).all()
    rng = np.random.default_rng(4)
    walks = np.cumsum(rng.standard_normal((200_000, 24)), axis=1)[:, LEAST_BLOCKS - 1 :]
    crossed = (walks / np.sqrt(np.arange(LEAST_BLOCKS, 25)) > normal).any(axis=1).mean()
    assert crossed == pytest.approx(level, abs=4 * math.sqrt(level / 200_000))
    # One look alone is a plain test.
    assert confirmation._normal_boundaries(LEAST_BLOCKS, level)[0] == pytest.approx(-special.ndtri(level), abs=1e-6)


def test_at_the_first_look_what_is_published_is_students_interval() -> None:
    low, middle, high = confirmation.published(20, LEAST_BLOCKS, 0.3, 0.01)
    half = float(special.stdtrit(LEAST_BLOCKS - 1, 0.975)) * 0.01
    assert (low, middle, high) == pytest.approx((0.3 - half, 0.3, 0.3 + half), abs=1e-4)


def test_a_loss_that_stopped_it_early_is_corrected_downwards() -> None:
    boundary = confirmation.boundaries(40)[12]
    low, middle, _ = confirmation.published(40, LEAST_BLOCKS + 12, boundary * 0.004, 0.004)
    assert 0.0 < low < middle < boundary * 0.004


def test_few_blocks_of_many_planned_whose_noise_is_large_tell_nothing_and_have_bounds_that_are_numbers() -> None:
    found = judge(Design(0.02, MOST_BLOCKS), [100.0, 240.0, 90.0, 130.0], [180.0, 80.0, 220.0, 60.0])
    assert found.answer == "go_on"
    assert math.isfinite(found.low or math.nan)
    assert found.high == pytest.approx(9999.0)
