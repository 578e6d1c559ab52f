"""Speed-up and efficiency: ratios within blocks, and intervals that hold the truth as often as they say."""

import math

import numpy as np
import pytest

from orchestrator.analysis.cell.scaling import speedup


def test_what_a_block_has_in_common_divides_out() -> None:
    hours = [1.0, 0.5, 0.8, 1.2]
    one = {block: 100.0 * hour for block, hour in enumerate(hours)}
    two = {block: 180.0 * hour for block, hour in enumerate(hours)}
    found = speedup(one, two)
    assert found is not None
    assert (found.value, found.ci_low, found.ci_high) == pytest.approx((1.8, 1.8, 1.8))
    assert found.blocks == 4
    half = found.over(2)
    assert (half.value, half.confidence) == (pytest.approx(0.9), 0.95)


def test_only_shared_blocks_count_and_one_of_them_has_no_interval() -> None:
    found = speedup({1: 100.0, 2: 50.0}, {2: 90.0, 3: 1.0})
    assert found is not None
    assert (found.value, found.ci_low, found.confidence, found.blocks) == (pytest.approx(1.8), None, None, 1)
    assert speedup({1: 100.0}, {2: 100.0}) is None


def test_the_interval_holds_the_true_speed_up_in_95_of_100_cases_noise_of_the_baseline_included() -> None:
    random = np.random.default_rng(7)
    truth, cases, held = 3.2, 1500, 0
    for _ in range(cases):
        block = random.normal(0.0, 0.2, 6)
        one = np.exp(block + random.normal(0.0, 0.03, 6))
        many = truth * np.exp(block + random.normal(0.0, 0.01, 6))
        found = speedup(dict(enumerate(one)), dict(enumerate(many)))
        assert found is not None
        assert found.ci_low is not None
        assert found.ci_high is not None
        held += found.ci_low <= truth <= found.ci_high
    assert abs(held / cases - 0.95) < 3 * math.sqrt(0.95 * 0.05 / cases)
