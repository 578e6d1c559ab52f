"""Baselines and borders on simulated series whose truth is known: changes of software, drifts of devices, nothing."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from orchestrator.analysis.history.baselines import Change, Observation, baselines_of
from orchestrator.analysis.history.breaks import Judged, SoftwareChange, borders_of, drift_of, software_changes

NOISE = 0.01  # of a night, as a ratio
DAY_S = 86_400.0


def nights(
    rng: np.random.Generator,
    count: int = 40,
    devices: int = 3,
    *,
    software: float = 0.0,
    updated: int | None = None,
    drift: float = 0.0,
    drifts: int = 20,
    rig: int | None = None,
    moved: float = 0.0,
    missing: float = 0.0,
    turns: bool = False,
) -> Iterator[Observation]:
    """Nights on devices that differ: from night ``updated`` on other software, slower by ``software``; from ``drifts``
    on device 0 slower by ``drift``; from ``rig`` on another kernel, with which all are slower by ``moved``."""
    levels = rng.normal(0.0, 0.05, devices)
    number = 0
    for night in range(count):
        if rng.random() < missing:
            continue
        for device in range(devices):
            if turns and night % devices != device:
                continue
            new, other = (since is not None and night >= since for since in (updated, rig))
            slower = software * new + moved * other + drift * (device == 0 and night >= drifts)
            value = levels[device] + math.log1p(-slower) + NOISE * rng.standard_normal()
            subject = {"framework_version": "2" if new else "1"}
            settings = {"nodes": {"n": {"kernel": "6.8" if other else "6.1"}}}
            yield Observation(number, night * DAY_S, f"d{device}", subject, settings, value, True)
        number += 1


def change_of(observations: list[Observation]) -> SoftwareChange:
    (found,) = software_changes(borders_of(observations, baselines_of(observations)))
    return found


def moved(judged: Judged | None) -> tuple[bool, list[str]]:
    """(whether the places moved together, which stand out)."""
    assert judged is not None
    return judged.is_common, [name for name, _ in judged.apart]


def share(cases: int, wrong: Any, **truth: Any) -> float:
    rng = np.random.default_rng(20261122)
    return float(np.mean([wrong(list(nights(rng, **truth))) for _ in range(cases)]))


# Where nothing is, something is found in 5 % of series or fewer. 400 series tell 5 % from 8 %.
MOST_FALSE = 0.08


@pytest.mark.parametrize(
    "truth",
    [{}, {"devices": 1}, {"count": 12}, {"turns": True, "count": 60}, {"missing": 0.3}],
    ids=["3 devices", "1 device", "12 nights", "in turns", "missing nights"],
)
def test_a_series_in_which_nothing_moves_drifts_in_five_of_a_hundred_cases_at_most(truth: dict[str, Any]) -> None:
    def drifts(found: list[Observation]) -> bool:
        return moved(drift_of(baselines_of(found))) != (False, [])

    assert share(200, drifts, **truth) <= MOST_FALSE


@pytest.mark.parametrize(
    "truth",
    [{"updated": 20}, {"updated": 39}, {"devices": 1, "updated": 38}, {"count": 8, "updated": 5}],
    ids=["in the middle", "last night", "two nights of one device", "a short series"],
)
def test_software_that_changes_nothing_is_found_guilty_in_five_of_a_hundred_cases_at_most(
    truth: dict[str, Any],
) -> None:
    assert share(200, lambda found: moved(change_of(found).judged) != (False, []), **truth) <= MOST_FALSE


def test_a_change_of_software_shows_on_all_devices() -> None:
    rng = np.random.default_rng(1)
    found = change_of(list(nights(rng, software=0.03, updated=25)))
    assert found.changes == (Change("subject", "framework_version", "1", "2"),)
    assert [border.point for border in found.borders] == [25, 25, 25]
    assert moved(found.judged) == (True, [])
    assert found.judged is not None
    low, high = found.judged.common.bounds() or (0.0, 0.0)
    assert low < math.log1p(-0.03) < high < -0.02


def test_the_interval_of_a_change_holds_the_truth_in_95_of_a_hundred_cases() -> None:
    def misses(found: list[Observation]) -> bool:
        judged = change_of(found).judged
        assert judged is not None
        low, high = judged.common.bounds() or (0.0, 0.0)
        return not low <= math.log1p(-0.03) <= high

    assert share(150, misses, software=0.03, updated=30) <= MOST_FALSE


def test_a_drift_of_one_device_of_three_is_told_with_software_unchanged() -> None:
    rng = np.random.default_rng(2)
    found = drift_of(baselines_of(list(nights(rng, drift=0.05))))
    assert moved(found) == (False, ["d0"])
    assert found is not None
    ((_, drift),) = found.apart
    low, high = drift.bounds() or (0.0, 0.0)
    assert low < math.log1p(-0.05) < high < 0.0


def test_a_device_that_drifts_where_the_software_changes_stands_out_from_the_others() -> None:
    rng = np.random.default_rng(3)
    assert moved(change_of(list(nights(rng, updated=20, drift=0.05, drifts=20))).judged) == (False, ["d0"])


def test_both_at_once_are_told_apart() -> None:
    rng = np.random.default_rng(4)
    found = change_of(list(nights(rng, count=60, software=0.03, updated=30, drift=0.06, drifts=30))).judged
    assert moved(found) == (True, ["d0"])
    assert found is not None
    low, high = found.common.bounds() or (0.0, 0.0)
    assert low < math.log1p(-0.03) < high


def test_a_device_that_drifts_within_a_baseline_hides_no_change_that_all_others_show() -> None:
    def is_told(observations: list[Observation]) -> bool:
        found = change_of(observations).judged
        assert found is not None
        drift = moved(drift_of(baselines_of(observations)))
        return found.is_common and "d0" not in found.places and drift == (False, ["d0"])

    assert share(100, is_told, software=0.04, updated=20, drift=0.08, drifts=28) >= 0.9


def test_one_device_alone_moves_and_nobody_can_be_asked_whether_others_do() -> None:
    rng = np.random.default_rng(6)
    found = change_of(list(nights(rng, devices=1, software=0.05, updated=30))).judged
    assert moved(found) == (True, [])
    assert found is not None
    assert found.places == ("d0",)


def test_a_change_of_the_rig_begins_a_new_baseline_and_is_no_change_of_software() -> None:
    rng = np.random.default_rng(7)
    observations = list(nights(rng, devices=1, rig=15, moved=0.1))
    (baselines,) = baselines_of(observations)
    assert [len(one.observations) for one in baselines] == [15, 25]
    assert baselines[1].changes == (Change("rig", "nodes.n.kernel", "6.1", "6.8"),)
    borders = borders_of(observations, [baselines])
    assert software_changes(borders) == []
    assert moved(drift_of([baselines])) == (False, [])  # what happened at the border is no drift
    assert borders[0].effect is not None
    assert borders[0].effect.value == pytest.approx(math.log1p(-0.1), abs=0.02)


def test_software_and_rig_that_change_in_one_night_cannot_be_told_apart_on_that_device() -> None:
    rng = np.random.default_rng(8)
    found = change_of(list(nights(rng, software=0.05, updated=20, rig=20)))
    assert found.judged is None
    assert len(found.confounded) == 3


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
    rng = np.random.default_rng(10)
    observations = list(nights(rng, count=11, devices=1, software=0.2, updated=10))
    ((before, after),) = baselines_of(observations)
    assert before.noise is after.noise
    assert (after.level.half_width or 0.0) > 2.0 * (before.level.half_width or 0.0) > 0.0
    assert moved(change_of(observations).judged) == (True, [])


def test_a_single_night_has_a_level_without_an_interval() -> None:
    ((only,),) = baselines_of([Observation(0, 0.0, "d", {}, {}, 1.0, True)])
    assert (only.level.value, only.level.bounds(), only.level.half_width) == (1.0, None, None)
    assert drift_of([[only]]) is None


def test_one_night_on_each_side_tells_nothing() -> None:
    one = Observation(0, 0.0, "d", {"v": 1}, {}, 1.0, True)
    other = Observation(1, DAY_S, "d", {"v": 2}, {}, 0.5, True)
    assert change_of([one, other]).judged is None


def test_sound_nights_make_a_level_and_grades_are_not_mixed_over_a_border() -> None:
    def night(number: int, value: float, sound: bool, version: str) -> Observation:
        return Observation(number, number * DAY_S, "d", {"v": version}, {}, value, sound)

    sound = [night(k, 0.01 * (k % 2), True, "1") for k in range(6)]
    disturbed = [night(6 + k, -0.2, False, "1") for k in range(2)]
    after = [night(8 + k, -0.2 + 0.01 * (k % 2), False, "2") for k in range(3)]
    ((first, second),) = baselines_of([*sound, *disturbed, *after])
    assert (first.is_sound, len(first.counted), second.is_sound) == (True, 6, False)
    (border,) = borders_of([*sound, *disturbed, *after], [[first, second]])
    assert border.effect is not None
    mean_before = float(np.mean([one.value for one in first.observations]))
    assert border.effect.value == pytest.approx(second.level.value - mean_before)


def test_devices_that_take_turns_do_not_interrupt_each_other() -> None:
    rng = np.random.default_rng(11)
    observations = list(nights(rng, count=30, turns=True))
    places = baselines_of(observations)
    assert [len(baselines) for baselines in places] == [1, 1, 1]
    borders = borders_of(observations, places)
    assert [(border.place, border.is_new_place) for border in borders] == [("d1", True), ("d2", True)]


def test_nights_that_never_vary_give_levels_without_width_and_no_division_by_zero() -> None:
    observations = [Observation(k, k * DAY_S, "d", {"v": k // 10}, {}, 1.0, True) for k in range(20)]
    ((first, _),) = baselines_of(observations)
    assert first.level.bounds() == (1.0, 1.0)
    assert moved(change_of(observations).judged) == (False, [])
    assert moved(drift_of(baselines_of(observations))) == (False, [])


def test_a_thousand_nights_on_three_devices_take_a_fraction_of_a_second() -> None:
    rng = np.random.default_rng(12)
    observations = list(nights(rng, count=1000, updated=600, software=0.02))
    assert moved(change_of(observations).judged) == (True, [])
