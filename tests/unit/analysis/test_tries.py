"""Series of tries: their levels, how often a series keeps what changes nothing, and what is seen."""

import math

import numpy as np
import pytest

from bench import tries as figures
from orchestrator.analysis.statistics import tries
from orchestrator.analysis.statistics.blocks import FAMILY_ERROR


def test_the_levels_of_all_tries_add_up_to_the_family_error() -> None:
    first = sum(tries.level(number) for number in range(1, 10_001))
    # The rest lies between the integrals of the level from there on.
    scale, power = tries.level(1), 1 - tries.DECAY
    rest = scale * 10_000**power / -power
    assert first < FAMILY_ERROR
    assert first + rest == pytest.approx(FAMILY_ERROR, rel=1e-5)


def test_series_of_edits_that_change_nothing_hardly_ever_keep_one() -> None:
    """In full, 200 series of 100 edits over recorded noise: ``python -m bench.tries``."""
    clean = figures.clean_series(np.random.default_rng(7), count=60, edits=40)
    assert clean >= 0.95 - 2 * math.sqrt(0.95 * 0.05 / 60)


def test_what_it_says_it_could_have_seen_is_seen_as_often_as_it_says() -> None:
    rng = np.random.default_rng(8)
    error = 0.02 / math.sqrt(12)
    gain = tries.judge(0.0, error, 1e6, 4).detectable_ratio  # the noise is known
    seen = [tries.judge(rng.normal(math.log1p(gain), error), error, 1e6, 4).kept for _ in range(1000)]
    assert np.mean(seen) == pytest.approx(0.8, abs=0.04)


@pytest.mark.parametrize(
    ("difference", "error", "kept"), [(0.02, 0.0, True), (0.0, 0.0, False), (-0.2, 0.01, False), (0.2, 0.01, True)]
)
def test_only_what_is_faster_is_kept(difference: float, error: float, kept: bool) -> None:
    assert tries.judge(difference, error, 11, 1).kept is kept
