"""Where the time of devices goes: the sum over runs, and what is a pause between two of them."""

import pytest

from orchestrator.domain.runs.device_time import DeviceTime, Held, of_attempt, together

TIME = DeviceTime(start_s=2.0, build_s=1.0, warmup_s=1.0, timed_s=5.0, end_s=0.5, pause_s=0.5)


def held(begun: float, *devices: str) -> Held:
    return Held(TIME, frozenset(devices), begun, begun + 10.0)


@pytest.mark.parametrize(
    ("runs", "timed_s", "pause_s"),
    [
        ([], 0.0, 0.0),
        ([held(0.0, "a")], 5.0, 0.5),
        ([held(12.0, "a"), held(0.0, "a")], 10.0, 3.0),  # in any order
        ([held(0.0, "a"), held(12.0, "b")], 10.0, 1.0),  # on another device: no pause of either
        ([held(0.0, "a", "b"), held(11.0, "a", "b")], 20.0, 4.0),  # each device counts
        ([held(0.0, "a"), held(900.0, "a")], 10.0, 1.0),  # somebody else had it meanwhile
    ],
)
def test_the_time_of_runs_adds_up_with_the_pauses_between_them(
    runs: list[Held], timed_s: float, pause_s: float
) -> None:
    found = together(runs)
    assert (found.timed_s, found.pause_s) == (timed_s, pause_s)
    assert found.timed_ratio == (pytest.approx(timed_s / (9.5 / 5.0 * timed_s + pause_s)) if runs else None)


@pytest.mark.parametrize("held_s", [11.0, 9.0, None])
def test_what_a_log_does_not_tell_of_an_attempt_is_a_pause(held_s: float | None) -> None:
    told = {"start_s": 2.0, "build_s": 1.0, "warmup_s": 1.0, "timed_s": 5.0, "end_s": 1.0}
    found = of_attempt(told, held_s)
    assert (found and found.pause_s) == {11.0: 1.0, 9.0: 0.0, None: None}[held_s]
    assert of_attempt(None, 9.0) is None
