"""How often a run is longer, or shorter, than it was said to be: over all orders in which alike runs may come."""

import pytest

from orchestrator.domain.runs.durations import LEAST, SURE, at_most_s, left_at_least_s


@pytest.mark.parametrize(("n", "sure"), [(LEAST, 0.9), (LEAST + 1, 0.9), (19, SURE), (20, SURE), (50, SURE)])
def test_of_alike_runs_each_of_which_may_be_the_next_few_are_misjudged(n: int, sure: float) -> None:
    alike = [float(k * k) for k in range(1, n + 2)]
    earlier = [[one for one in alike if one is not next_one] for next_one in alike]
    longer = sum(one > (at_most_s(known) or 0.0) for one, known in zip(alike, earlier, strict=True))
    shorter = sum(one - 0.5 < left_at_least_s(known, 0.5) for one, known in zip(alike, earlier, strict=True))
    assert 0 < longer <= (1 - sure) * (n + 1) + 1e-9
    assert 0 < shorter <= (1 - sure) * (n + 1) + 1e-9


def test_where_too_few_are_known_nothing_is_said() -> None:
    assert at_most_s([1.0] * (LEAST - 1)) is None
    assert left_at_least_s([1.0, *range(2, LEAST + 1)], 1.0) == 0.0
