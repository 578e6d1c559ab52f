"""The first that waits is not overtaken, in the simulation that docs/build/benchmarks.md quotes."""

import pytest

from bench import overtaking


@pytest.mark.parametrize("name", overtaking.CASES)
@pytest.mark.after_change
def test_who_is_first_waits_no_longer_than_the_longest_that_ran_then(name: str) -> None:
    for seed in range(2):
        assert overtaking.wait(overtaking.CASES[name], seed)[0] <= 1.0 + 1e-9
        assert overtaking.wait(overtaking.CASES[name], seed, known=True)[0] <= 1.2
