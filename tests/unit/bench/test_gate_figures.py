"""A quick version of ``make gate-figures``: few cases, fixed seeds, wide margins."""

import numpy as np
import pytest

from bench import gate, nights


@pytest.mark.parametrize("kind", nights.KINDS)
def test_a_generator_makes_nights_of_one_deviation_in_which_nothing_happens(kind):
    found = nights.KINDS[kind](np.random.default_rng(1), (400, 60))
    assert found.shape == (400, 60)
    assert 0.3 < np.median(np.abs(found)) < 0.9
    assert abs(found.mean()) < 0.4


@pytest.mark.parametrize(("kind", "most"), [("Gaussian", 0.2), ("AR(1) 0.5", 0.6), ("processes of two kinds", 0.4)])
@pytest.mark.after_change
def test_nights_of_nothing_are_seldom_tried(kind, most):
    steps, _ = gate.tried(nights.KINDS[kind], 60, np.random.default_rng(2))
    assert steps.mean() <= most


@pytest.mark.after_change
def test_a_drop_of_two_per_cent_is_told_within_three_nights_and_its_interval_holds():
    rng = np.random.default_rng(3)
    found = [gate.dropped(row, rng) for row in nights.gaussian(rng, (25, gate.NIGHTS))]
    assert sum(one.told is None for one in found) <= 2
    assert np.mean([one.told is not None and one.told <= 3 for one in found]) >= 0.8
    held = [one.decision.low <= -gate.DROP <= one.decision.high for one in found if one.decision]
    assert np.mean(held) >= 0.84


def test_ramps_are_called_drifts_and_seldom_steps():
    found, _ = nights.ramps(np.random.default_rng(4), (30, gate.NIGHTS))
    assert np.mean([bool(gate.calls(row)) for row in found]) <= 0.5
    assert np.mean([bool(gate.calls(row, "drift")) for row in found]) >= 0.8


def test_sixty_nightlies_of_nothing_deliver_one_false_alert_at_most_and_cost_little():
    delivered, trials, spent = gate.nightly(np.random.default_rng(5), 50)
    assert delivered <= 1
    assert trials <= 0.4 * 50
    assert spent <= 0.1


@pytest.mark.parametrize("kind", gate.PROCESSES)
def test_equal_subjects_are_seldom_told_slower(kind):
    rng = np.random.default_rng(6)
    assert sum(gate.confirmed(rng, gate.DROP, 0.0, kind).answer == "slower" for _ in range(100)) <= 3


def test_alternating_halves_the_error_of_one_side_after_the_other():
    alternating, after_each_other = gate.errors_of_order(np.random.default_rng(7), 200)
    assert alternating <= 0.5 * after_each_other


@pytest.mark.parametrize("kind", ["Gaussian", "AR(1) 0.3", "recorded processes"])
def test_the_smallest_drop_that_is_said_to_be_seen_is_called_in_nine_of_ten_cases_or_so(kind):
    drops, called = gate.seen(nights.KINDS[kind], 80, np.random.default_rng(8))
    assert 0.012 < np.median(drops) < 0.03
    assert 0.8 <= called.mean() <= 0.98


def test_a_bisection_finds_the_first_slower_commit() -> None:
    rng = np.random.default_rng(5)
    assert all(gate.bisected(rng, 8, 0.05, 0.015)[0] for _ in range(4))
