"""Baselines and borders on simulated series whose truth is known. What is slower: test_gate_suspects.py."""

import math
from collections.abc import Iterator

import numpy as np
import pytest

from orchestrator.analysis.history.baselines import Observation, baselines_of
from orchestrator.analysis.history.breaks import Border, borders_of
from orchestrator.domain.asked.fingerprint import Changed

NOISE = 0.01  # of a night, as a ratio
DAY_S = 86_400.0
# An interval misses in 5 % of series or fewer. 400 series tell 5 % from 8 %.
MOST_FALSE = 0.08


def nights(
    rng: np.random.Generator,
    count: int = 40,
    devices: int = 1,
    *,
    slower: float = 0.0,
    updated: int = 20,
    rig: bool = False,
    turns: bool = False,
) -> Iterator[Observation]:
    """Nights on devices that differ: from night ``updated`` on other software (``rig``: another kernel), and slower."""
    levels = rng.normal(0.0, 0.05, devices)
    for night in range(count):
        for device in range(devices):
            if turns and night % devices != device:
                continue
            new = night >= updated
            value = levels[device] + math.log1p(-slower * new) + NOISE * rng.standard_normal()
            subject = {"framework_version": "2" if new and not rig else "1"}
            settings = {"nodes": {"n": {"kernel": "6.8" if new and rig else "6.1"}}}
            yield Observation(night, night * DAY_S, f"d{device}", subject, settings, value, True)


def border_of(observations: list[Observation]) -> Border:
    (found,) = borders_of(observations, baselines_of(observations))
    return found


def test_a_change_of_software_is_a_border_on_each_device() -> None:
    observations = list(nights(np.random.default_rng(1), devices=3, updated=25))
    found = borders_of(observations, baselines_of(observations))
    assert [(border.place, border.point) for border in found] == [("d0", 25), ("d1", 25), ("d2", 25)]
    assert {border.changes for border in found} == {(Changed("subject", "framework_version", "1", "2"),)}


def test_the_interval_of_a_border_holds_the_truth_in_95_of_a_hundred_cases() -> None:
    rng = np.random.default_rng(20261122)
    misses = 0
    for _ in range(150):
        effect = border_of(list(nights(rng, slower=0.03, updated=30))).effect
        assert effect is not None
        low, high = effect.bounds() or (0.0, 0.0)
        misses += not low <= math.log1p(-0.03) <= high
    assert misses / 150 <= MOST_FALSE


def test_a_change_of_the_rig_begins_a_new_baseline() -> None:
    observations = list(nights(np.random.default_rng(7), updated=15, rig=True, slower=0.1))
    (baselines,) = baselines_of(observations)
    assert [len(one.observations) for one in baselines] == [15, 25]
    assert baselines[1].changes == (Changed("rig", "nodes.n.kernel", "6.1", "6.8"),)
    effect = border_of(observations).effect
    assert effect is not None
    assert effect.value == pytest.approx(math.log1p(-0.1), abs=0.02)


def test_a_level_has_an_interval_that_holds_the_truth_though_sessions_scatter() -> None:
    rng = np.random.default_rng(9)
    misses = 0
    for _ in range(300):
        values = NOISE * rng.standard_normal(6)
        observations = [Observation(k, k * DAY_S, "d", {}, {}, float(one), True) for k, one in enumerate(values)]
        ((baseline,),) = baselines_of(observations)
        low, high = baseline.level.bounds() or (0.0, 0.0)
        misses += not low <= 0.0 <= high
    assert misses / 300 <= MOST_FALSE


def test_one_night_after_a_change_is_lent_the_scatter_of_the_nights_before() -> None:
    observations = list(nights(np.random.default_rng(10), count=8, slower=0.2, updated=7))
    ((before, after),) = baselines_of(observations)
    assert before.noise is after.noise
    widths = [high - low for low, high in (one.level.bounds() or (0.0, 0.0) for one in (before, after))]
    assert widths[1] > 2.0 * widths[0] > 0.0
    effect = border_of(observations).effect
    assert effect is not None
    assert (effect.bounds() or (0.0, 0.0))[1] < -0.1


def test_a_single_night_has_a_level_without_an_interval_and_one_on_each_side_tells_no_difference() -> None:
    one = Observation(0, 0.0, "d", {"v": 1}, {}, 1.0, True)
    ((only,),) = baselines_of([one])
    assert (only.level.value, only.level.bounds()) == (1.0, None)
    effect = border_of([one, Observation(1, DAY_S, "d", {"v": 2}, {}, 0.5, True)]).effect
    assert effect is not None
    assert (effect.value, effect.bounds()) == (-0.5, None)


def test_sound_nights_make_a_level_and_grades_are_not_mixed_over_a_border() -> None:
    def night(number: int, value: float, sound: bool, version: str) -> Observation:
        return Observation(number, number * DAY_S, "d", {"v": version}, {}, value, sound)

    sound = [night(k, 0.01 * (k % 2), True, "1") for k in range(6)]
    disturbed = [night(6 + k, -0.2, False, "1") for k in range(2)]
    after = [night(8 + k, -0.2 + 0.01 * (k % 2), False, "2") for k in range(3)]
    ((first, second),) = baselines_of([*sound, *disturbed, *after])
    assert (first.is_sound, len(first.counted), second.is_sound) == (True, 6, False)
    effect = border_of([*sound, *disturbed, *after]).effect
    assert effect is not None
    mean_before = float(np.mean([one.value for one in first.observations]))
    assert effect.value == pytest.approx(second.level.value - mean_before)


def test_devices_that_take_turns_do_not_interrupt_each_other() -> None:
    observations = list(nights(np.random.default_rng(11), count=30, devices=3, turns=True, updated=30))
    places = baselines_of(observations)
    assert [len(baselines) for baselines in places] == [1, 1, 1]
    borders = borders_of(observations, places)
    assert [(border.place, border.is_new_place) for border in borders] == [("d1", True), ("d2", True)]


def test_nights_that_never_vary_give_levels_without_width_and_no_division_by_zero() -> None:
    observations = [Observation(k, k * DAY_S, "d", {"v": k // 10}, {}, 1.0, True) for k in range(20)]
    ((first, _),) = baselines_of(observations)
    assert first.level.bounds() == (1.0, 1.0)
    effect = border_of(observations).effect
    assert effect is not None
    assert (effect.value, effect.bounds()) == (0.0, (0.0, 0.0))
