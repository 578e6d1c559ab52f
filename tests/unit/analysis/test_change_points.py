"""PELT against the exhaustive search it must equal."""

import itertools

import numpy as np
import pytest

from orchestrator.analysis.statistics.changepoints import change_points


def _cost(values, borders):
    return sum(float(((values[a:b] - values[a:b].mean()) ** 2).sum()) for a, b in itertools.pairwise(borders))


def _exhaustive(values, penalty, least):
    n = len(values)
    best = (_cost(values, [0, n]), [])
    for count in (1, 2, 3):
        for points in itertools.combinations(range(least, n - least + 1), count):
            borders = [0, *points, n]
            if min(b - a for a, b in itertools.pairwise(borders)) >= least:
                best = min(best, (_cost(values, borders) + penalty * count, list(points)))
    return best[1]


@pytest.mark.parametrize("seed", range(8))
def test_it_finds_the_segmentation_of_least_cost(seed):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(24) + np.repeat(rng.normal(0, 2, 4), 6)
    found = change_points(values, penalty=6.0, least=5)
    assert found == _exhaustive(values, 6.0, 5)


def test_a_level_series_has_no_change_points():
    assert change_points(np.zeros(100), penalty=1.0, least=8) == []


def test_a_series_shorter_than_two_segments_has_none():
    assert change_points(np.arange(10.0), penalty=0.0, least=8) == []
