"""The judgement of a night against those before it: what may be a baseline, and how often it is wrong."""

import numpy as np
import pytest

from orchestrator.analysis.history.nightly import LOOK_BACK, Night, Rates, judge


def night(*rates: float, setting: str = "here", sound: bool = True) -> Night:
    own = Rates(rates, ("n0",) * len(rates))
    return Night(own if sound else None, own, setting)


USUAL = [night(99.0, 101.0), night(100.5, 99.5), night(101.0, 100.0), night(98.5, 100.0)]


def test_a_night_far_below_the_last_ones_is_slower_and_says_by_how_much() -> None:
    verdict = judge(night(69.0, 71.0), USUAL)
    assert verdict.outcome == "slower"
    assert verdict.text.startswith("slower: -30.0% (95 % interval -3")
    assert verdict.text.endswith("against 4 earlier nights")
    assert verdict.compared_with == (0, 1, 2, 3)


def test_what_the_movement_between_nights_explains_is_not_slower() -> None:
    restless = [night(rate, rate * 1.005) for rate in (100.0, 80.0, 110.0, 90.0)]
    assert judge(night(75.0, 76.0), restless).outcome == "not_slower"
    assert judge(night(75.0, 76.0), USUAL).outcome == "slower"


def test_a_faster_night_is_not_slower() -> None:
    verdict = judge(night(140.0, 141.0), USUAL)
    assert verdict.outcome == "not_slower"
    assert verdict.text.startswith("faster: +")


def test_the_first_nights_have_no_baseline() -> None:
    assert judge(night(70.0, 71.0), []).outcome == "no_baseline"
    assert "2 earlier nights of two runs or more" in judge(night(70.0, 71.0), USUAL[:2]).text
    assert judge(night(70.0, 71.0), USUAL[:3]).outcome == "slower"
    singles = [night(100.0)] * 5
    assert judge(night(70.0, 71.0), singles).outcome == "no_baseline"
    assert judge(night(70.0), USUAL).outcome == "too_few_runs"


def test_another_machine_begins_a_new_baseline_and_the_old_one_goes_on_when_it_is_back() -> None:
    elsewhere = [night(50.0, 51.0, setting="there"), night(50.0, 50.5, setting="there")]
    assert "first night on this machine" in judge(night(50.0, 51.0, setting="there"), USUAL).text
    verdict = judge(night(70.0, 71.0), [*USUAL, *elsewhere])
    assert (verdict.outcome, verdict.compared_with) == ("slower", (0, 1, 2, 3))


def test_nights_without_a_number_and_slow_ones_are_no_baseline_and_all_are_forgotten_in_time() -> None:
    assert judge(night(70.0, 71.0), [*USUAL, None, None]).outcome == "slower"
    slow = [None] * (LOOK_BACK - len(USUAL))
    assert judge(night(70.0, 71.0), [*USUAL, *slow]).outcome == "slower"
    assert judge(night(70.0, 71.0), [*USUAL, *slow, None, None]).outcome == "no_baseline"


def test_grades_are_not_mixed() -> None:
    """Where one night has too few sound runs, the planned ones of all nights are compared."""
    loaded = [Night(Rates((100.0, 101.0), ("", "")), Rates((60.0, 100.0), ("", "")), "here") for _ in range(3)]
    assert judge(night(70.0, 71.0), loaded).outcome == "slower"
    assert judge(night(70.0, 71.0, sound=False), loaded).outcome == "not_slower"


@pytest.mark.parametrize("nights", [4, 9])
@pytest.mark.parametrize(("moves", "noise"), [(0.0, 0.02), (0.01, 0.02), (0.03, 0.01)])
def test_equal_nights_are_seldom_called_slower_and_a_third_less_is_found(
    nights: int, moves: float, noise: float
) -> None:
    """300 series each: wrong in 2.5 % or fewer, and three standard errors of that."""
    draw = np.random.default_rng(14)
    false, found = 0, 0
    for _ in range(300):
        means = 100 * np.exp(draw.normal(0, moves, nights))
        *before, last = [night(*(mean * np.exp(draw.normal(0, noise, 3)))) for mean in means]
        slowed = night(*(0.67 * rate for rate in last.planned.values))
        false += judge(last, before).outcome == "slower"
        found += judge(slowed, before).outcome == "slower"
    print(nights, moves, noise, false / 300, found / 300)
    assert false / 300 <= 0.025 + 3 * (0.025 * 0.975 / 300) ** 0.5
    assert found / 300 >= (0.95 if nights > 4 else 0.6)
