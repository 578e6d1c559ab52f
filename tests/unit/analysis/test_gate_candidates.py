"""Candidates of the regression gate, on series whose truth is known. How often: ``bench/test_gate_figures.py``."""

import math
from dataclasses import replace

import numpy as np
import pytest

from orchestrator.analysis.gate.candidates import Candidate, Session, calls_of, candidates_of, causes_of
from orchestrator.analysis.statistics.autocorrelation import Floats

NOISE = 0.005
DAY_S = 86_400.0


def noise(seed: int, nights: int = 60) -> Floats:
    return NOISE * np.random.default_rng(seed).standard_normal(nights)


def dropped(values: Floats, night: int, ratio: float) -> Floats:
    return values + math.log1p(-ratio) * (np.arange(len(values)) >= night)


def candidate(**changes: object) -> Candidate:
    found = {"series": "s", "place": "n cpu:0", "at": 0.0, "called_at": 0.0, "kind": "step", "difference": -0.02}
    return Candidate(**{**found, "before": "v1", "after": "v1", **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("ratio", [0.03, 0.5])
def test_a_drop_is_called_within_three_nights_since_its_first_one(ratio: float) -> None:
    (call,) = calls_of(dropped(noise(6), 30, ratio))
    assert (call.kind, call.begins) == ("step", 30)
    assert call.called <= 32
    assert math.expm1(call.size) == pytest.approx(-ratio, abs=0.01)


@pytest.mark.parametrize(("night", "size"), [(30, -0.3), (30, 0.3), (59, -0.3), (0, -0.3)])
def test_one_bad_night_is_no_change(night: int, size: float) -> None:
    values = noise(9)
    values[night] += size
    assert calls_of(values) == []


def test_what_was_called_does_not_depend_on_later_nights() -> None:
    values = dropped(dropped(noise(3), 25, 0.03), 45, -0.05)
    whole = calls_of(values)
    assert len(whole) == 2
    for nights in range(len(values)):
        assert calls_of(values[:nights]) == [call for call in whole if call.called < nights]


def test_a_drop_that_is_taken_back_is_called_once_each_way() -> None:
    values = dropped(noise(4), 20, 0.03)
    found = calls_of(dropped(values, 40, 1 - 1 / 0.97))
    assert [(call.begins, call.size < 0) for call in found] == [(20, True), (40, False)]


@pytest.mark.parametrize("nights", [0, 1, 3, 7])
def test_few_nights_tell_nothing(nights: int) -> None:
    assert calls_of(dropped(np.zeros(nights), nights // 2, 0.5)) == []


def test_nights_that_never_vary_are_no_division_by_zero() -> None:
    assert calls_of(np.full(60, 5.0)) == []
    (call,) = calls_of(dropped(np.full(60, 5.0), 30, 0.02))
    assert (call.begins, call.called <= 33) == (30, True)


def test_a_slow_ramp_is_a_drift_since_it_began_and_never_a_step() -> None:
    values = noise(6) - 0.0015 * np.maximum(np.arange(60) - 20, 0)
    found = calls_of(values)
    assert {call.kind for call in found} == {"drift"}
    assert abs(found[0].begins - 20) <= 5
    assert found[0].size < 0


def nights_of(values: Floats, place: str = "n cpu:0", updated: int = 30) -> list[Session]:
    return [
        Session(night * DAY_S, place, "v2" if night >= updated else "v1", float(value))
        for night, value in enumerate(values)
    ]


def test_a_candidate_says_since_when_and_what_changed() -> None:
    (found,) = candidates_of("s", nights_of(dropped(noise(6), 30, 0.03)))
    assert (found.series, found.at, found.kind) == ("s", 30 * DAY_S, "step")
    assert (found.before, found.after) == ("v1", "v2")
    assert found.called_at <= 32 * DAY_S


def test_a_swapped_device_is_no_slowdown_and_faster_nights_are_no_candidate() -> None:
    moved = nights_of(dropped(noise(7), 30, 0.1))
    moved[30:] = [replace(night, place="m cpu:0") for night in moved[30:]]
    assert candidates_of("s", moved) == []
    assert candidates_of("s", nights_of(dropped(noise(8), 30, -0.1))) == []


@pytest.mark.parametrize(
    ("other", "causes"),
    [
        ({"place": "n cpu:1"}, 1),
        ({"place": "m cpu:0"}, 2),
        ({"place": "m cpu:0", "before": "v0", "after": "v2"}, 2),
        ({"series": "other", "called_at": DAY_S}, 2),
        ({"kind": "drift"}, 2),
    ],
)
def test_candidates_of_a_night_that_share_a_node_are_one_cause(other: dict[str, object], causes: int) -> None:
    assert len(causes_of([candidate(), candidate(**other)])) == causes


def test_candidates_that_share_a_change_of_software_or_a_schedule_are_one_cause() -> None:
    updated = [candidate(place=f"{node} cpu:0", before="v0") for node in "abc"]
    assert len(causes_of(updated)) == 1
    apart = [candidate(series=name, place=f"{name} cpu:0") for name in "abc"]
    assert len(causes_of(apart, {"a": "nightly", "b": "nightly"})) == 2
    bridge = candidate(place="a cpu:9", before="v0", after="v2")
    assert len(causes_of([*apart[:2], bridge, candidate(place="b x", before="v0", after="v2")])) == 1
