"""How many processes of which length a measurement of noise has: decided before it begins."""

import pytest

from workers.node.noise import FEWEST, INTERVAL_S, LENGTHS, MANY, MOST, WARM_UP, NoiseError, outlined


@pytest.mark.parametrize("step_s", [0.0001, 0.002, 0.01, 0.025, 0.06, 0.2])
def test_it_fits_into_its_time_and_has_as_many_processes_as_it_takes(step_s):
    outline = outlined(step_s, 0.4, 100.0)
    assert outline.steps * step_s >= INTERVAL_S
    assert outline.processes * (0.4 + (WARM_UP + outline.intervals) * outline.steps * step_s) <= 100.0
    assert FEWEST <= outline.processes <= MOST


def test_processes_are_long_where_there_is_time_for_many_and_shorter_where_not():
    assert outlined(0.025, 0.4, 100.0) == (31, LENGTHS[0], 1)
    assert outlined(0.1, 0.4, 100.0) == (13, LENGTHS[1], 1)
    assert outlined(0.2, 0.4, 100.0) == (11, LENGTHS[2], 1)
    assert outlined(0.6, 0.4, 100.0).processes < MANY


def test_a_time_that_is_too_short_is_refused_with_one_that_is_not():
    with pytest.raises(NoiseError, match="--seconds 182"):
        outlined(1.0, 0.5, 100.0)
    assert outlined(1.0, 0.5, 182.0).processes == 4
