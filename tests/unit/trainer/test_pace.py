"""How the first intervals grow until they are long enough."""

import pytest

from workers.trainer.loops.pace import Pace, steps_of


def proposals(pace, step_s):
    """Play a run whose steps take ``step_s(step)``; return all proposals."""
    found, step = [], 0
    while True:
        proposal = pace.next()
        if proposal is None:
            return found
        found.append(proposal)
        pace.note(proposal[1], sum(step_s(step + i) for i in range(proposal[1])))
        step += proposal[1]


def test_on_a_cpu_device_only_the_first_step_is_warm_up_and_an_interval_is_one_step():
    assert proposals(Pace(0, 4), lambda step: 0.5) == [("warmup", 1), ("timed", 1), ("timed", 1), ("timed", 1)]


@pytest.mark.parametrize(
    ("epochs", "samples", "batch", "steps"),
    # 0.07 x 600 is more than 42 in binary.
    [
        (1.0, 600, 20, 30),
        (0.07, 600, 6, 7),
        (0.07, 601, 6, 8),
        (2.5, 600, 64, 24),
        (1e-05, 600, 20, 1),
        (1.0, 5, 64, 1),
    ],
)
def test_epochs_are_so_many_whole_steps(epochs, samples, batch, steps):
    assert steps_of(epochs, samples, batch) == steps


def test_on_a_gpu_the_interval_grows_until_it_lasts_long_enough():
    found = proposals(Pace(0.2, 1000), lambda step: 0.004)
    timed = [n for phase, n in found if phase == "timed"]
    assert min(timed[:-1]) * 0.004 >= 0.2
    assert len(set(timed[:-1])) == 1


def test_a_slow_first_step_does_not_decide_the_length_of_intervals():
    found = proposals(Pace(0.2, 200), lambda step: 30.0 if step == 0 else 0.01)
    assert max(n for _, n in found) >= 20


def test_the_steps_of_a_plan_are_never_exceeded():
    for max_steps in (1, 2, 7, 50, 51):
        assert sum(n for _, n in proposals(Pace(0.2, max_steps), lambda step: 0.03)) == max_steps


@pytest.mark.parametrize("interval_s", [0.0, 0.2])
def test_a_device_warms_up_before_it_is_timed_and_no_timed_step_is_lost_to_it(interval_s):
    found = proposals(Pace(interval_s, 500, warm_up_s=30.0), lambda step: 5.0 if step == 0 else 0.01)
    warmed_s = sum(n for phase, n in found[1:] if phase == "warmup") * 0.01
    assert 30.0 <= warmed_s < 31.0
    cold = proposals(Pace(interval_s, 500), lambda step: 5.0 if step == 0 else 0.01)
    assert [n for phase, n in found if phase == "timed"] == [n for phase, n in cold if phase == "timed"]


def test_steps_that_take_no_measurable_time_still_end():
    found = proposals(Pace(0.2, 5000), lambda step: 0.0)
    assert sum(n for _, n in found) == 5000
