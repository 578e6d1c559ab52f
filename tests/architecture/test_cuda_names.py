"""Every name of PyTorch's CUDA side that the source uses can be tried without a GPU."""

from tests.gpu import names


def test_every_use_has_a_trial_and_every_trial_a_use():
    """A new one goes into TRIALS of tests/gpu/names.py, and into tests/gpu/stand_in.py or stand_in_names.NOT_CALLED."""
    found = names.uses()
    assert names.untried(found) == set()
    assert {use.name for use in found} == set(names.TRIALS)
