"""The estimate of what stands beside a trainer, on steps whose times are known."""

import pytest

from bench.disturbance import ORDER, Slice, Step, between_intervals, of_trainer, slice_s

SLICE_S = 3.0
GAP_S = 0.01


def a_trainer(step_s, blocks=2, drift=0.0):
    """(slices, steps) of a trainer whose steps take ``step_s[state]`` seconds, and ``drift`` more each second."""
    slices = [Slice(state, i * SLICE_S, (i + 1) * SLICE_S) for i, state in enumerate(ORDER * blocks)]
    steps, now = [], 0.0
    while now < slices[-1].ended:
        state = slices[min(int(now / SLICE_S), len(slices) - 1)].state
        duration_s = step_s[state] * (1.0 + drift * now)
        now += duration_s
        steps.append(Step(now, duration_s))
        now += GAP_S
    return slices, steps


LEVEL = {"free": 0.102, "frozen": 0.1}


def test_speed_is_held_against_that_beside_a_frozen_tbd():
    assert of_trainer(*a_trainer(LEVEL)).own == pytest.approx(0.1 / 0.102)


def test_a_machine_that_becomes_slower_all_the_while_says_nothing_of_tbd():
    found = of_trainer(*a_trainer(dict.fromkeys(ORDER, 0.1), drift=0.005))
    assert found.own == pytest.approx(1.0, abs=0.002)


def test_a_step_that_was_under_way_at_the_switch_and_the_first_whole_one_are_left_out():
    steps = [Step(0.9, 0.1), Step(1.1, 0.2), Step(1.5, 0.4), Step(1.6, 0.1), Step(1.75, 0.15), Step(2.05, 0.3)]
    assert Slice("free", 1.0, 2.0).step_time_s(steps) == pytest.approx(0.125)


def test_what_lies_between_the_intervals_is_the_trainers_own_share_of_the_clock():
    assert between_intervals([Step(1.0, 0.9), Step(2.0, 0.8), Step(3.0, 0.7)]) == pytest.approx(0.25)


def test_slow_steps_get_longer_slices():
    assert slice_s([Step(1.0, 0.05)]) == 0.75
    assert slice_s([Step(1.0, 0.5), Step(2.0, 0.5), Step(9.0, 7.0)]) == 3.0


def test_what_cannot_be_compared_is_refused():
    slices, steps = a_trainer(LEVEL)
    with pytest.raises(ValueError, match="whole blocks"):
        of_trainer(slices[:-1], steps)
    with pytest.raises(ValueError, match="longer"):
        of_trainer(slices, steps[::20])
    with pytest.raises(ValueError, match="two steps"):
        between_intervals(steps[:1])
