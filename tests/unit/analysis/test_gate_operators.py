"""Which operators take longer is told of those that do, and noise is called nobody's."""

import numpy as np
import pytest

from orchestrator.analysis.gate.operators import LEAST_PROFILED, operators_of
from orchestrator.domain.value.profile import Kernel, KernelTable

STEPS = 3


def process(**seconds: float) -> list[KernelTable]:
    """A process of one rank, by each kernel's seconds a step."""
    rows = tuple(Kernel(name, "other", 1, STEPS * each, 0.0, None, "") for name, each in seconds.items())
    return [KernelTable(rank=0, method="", steps=STEPS, elapsed_s=1.0, active_s=1.0, rows=rows)]


def side(
    random: np.random.Generator, count: int = LEAST_PROFILED, noise: float = 0.01, **levels: float
) -> list[list[KernelTable]]:
    return [process(**{name: each * random.normal(1.0, noise) for name, each in levels.items()}) for _ in range(count)]


def test_the_operator_that_takes_longer_is_told_and_the_rest_is_one_number() -> None:
    random = np.random.default_rng(1)
    levels = {"convolution": 4e-3, "norm": 1e-3, "copy": 2e-4}
    found = operators_of(side(random, **levels), side(random, **levels | {"norm": 2.6e-3}))
    assert found is not None
    assert [one.name for one in found.told] == ["norm"]
    assert found.told[0].difference_s == pytest.approx(1.6e-3, rel=0.02)
    assert found.told[0].low_s < found.told[0].difference_s < found.told[0].high_s
    assert found.whole.difference_s == pytest.approx(found.told[0].difference_s + found.rest_s)
    assert found.processes == (LEAST_PROFILED, LEAST_PROFILED)


def test_an_operator_of_one_side_only_is_told_as_far_as_the_other_has_none() -> None:
    random = np.random.default_rng(2)
    found = operators_of(side(random, convolution=4e-3), side(random, convolution=4e-3, added=1e-3))
    assert found is not None
    assert [(one.name, one.before_s) for one in found.told] == [("added", 0.0)]


def test_equal_sides_are_told_to_differ_in_no_more_than_their_share() -> None:
    random = np.random.default_rng(3)
    levels = {f"kernel {number}": 1e-4 * number for number in range(1, 30)}
    told = [operators_of(side(random, **levels), side(random, **levels)) for _ in range(400)]
    assert sum(bool(one and one.told) for one in told) <= 0.05 * len(told) + 3 * np.sqrt(0.05 * 0.95 * len(told))


def test_two_processes_tell_nothing_and_three_that_agree_to_the_last_digit_tell_no_more_than_is_known() -> None:
    random = np.random.default_rng(4)
    assert operators_of(side(random, count=2, one=1.0), side(random, one=1.0)) is None
    found = operators_of(side(random, noise=0.0, one=1e-3), side(random, noise=0.0, one=1e-3))
    assert found is not None
    assert (found.told, found.whole.difference_s) == ((), 0.0)
