"""How long a run is, before it starts."""

import math
from dataclasses import replace

import numpy as np
import pytest

from orchestrator.analysis.cell.length import Noise, first_length, noise_of, planned_length, within_variance

QUIET = Noise(interval_s=0.2, cut=10, within=0.0, between=0.0, spikes_ratio=0.0, intervals=70, runs=2)


def test_a_run_has_sixty_intervals_after_its_warm_up():
    assert planned_length(QUIET, start_up_s=3.0).intervals == 70


def test_and_three_seconds():
    found = planned_length(replace(QUIET, interval_s=0.002), start_up_s=0.0)
    assert found.intervals == 10 + 1500
    assert "3 s after a warm-up of 10" in found.reason


def test_spikes_make_it_a_hundred():
    found = planned_length(replace(QUIET, spikes_ratio=0.03), start_up_s=3.0)
    assert found.intervals == 110
    assert "3.0% are spikes" in found.reason


def test_it_is_never_shorter_than_the_first_runs_nor_than_three_cuts():
    assert planned_length(replace(QUIET, intervals=120), start_up_s=3.0).intervals == 120
    assert planned_length(replace(QUIET, cut=50), start_up_s=3.0).intervals == 150


def test_dear_starts_of_processes_that_hardly_differ_make_it_longer():
    noise = replace(QUIET, within=0.03**2, between=0.001**2, runs=12)
    found = planned_length(noise, start_up_s=30.0)
    between = (11 * 0.001**2 + 0.03**2 / 60) / 12
    assert found.intervals == 10 + math.ceil(math.sqrt(32.0 / 0.2 * 0.03**2 / between))
    assert "processes differ by 0.1% and cost 32.0 s to start" in found.reason
    assert planned_length(replace(noise, between=0.04**2), start_up_s=30.0).intervals == 70


def test_two_runs_that_agree_do_not_make_it_endless():
    agree = replace(QUIET, within=0.03**2, between=0.0)
    assert planned_length(agree, start_up_s=3.0).intervals <= 10 + 2 * 60
    assert planned_length(agree, start_up_s=1e6).intervals == 10 + 5 * 60


def test_max_measure_s_alone_makes_it_shorter_and_the_reason_says_so():
    found = planned_length(QUIET, start_up_s=3.0, max_measure_s=5.0)
    assert (found.intervals, found.bounded) == (25, True)
    assert found.reason == "max_measure_s: 25 intervals fit into 5 s, 70 are wanted"


def test_where_nothing_is_known_a_run_has_a_hundred_intervals():
    assert (first_length().intervals, first_length().seconds) == (100, 3.0)
    assert first_length(interval_s=0.002).intervals == 1500
    assert first_length(max_measure_s=1.0).seconds == 1.0


def test_a_remembered_warm_up_is_followed_by_sixty_and_is_a_third_at_most():
    assert first_length(10, interval_s=0.2).intervals == 70
    assert first_length(50, interval_s=0.2).intervals == 150
    assert first_length(20).seconds == pytest.approx(3.0 * 80 / 60)


def test_the_noise_of_pilots_knows_steps_from_processes():
    rng = np.random.default_rng(1)
    found = [
        noise_of([1 + 0.04 * rng.standard_normal() + 0.03 * rng.standard_normal(100) for _ in range(2)], 20, 0.1)
        for _ in range(400)
    ]
    assert np.mean([one.within for one in found]) == pytest.approx(0.03**2, rel=0.1)
    assert np.mean([one.between for one in found]) == pytest.approx(0.04**2, rel=0.2)
    assert {one.intervals for one in found} == {100}


def test_a_single_pilot_knows_nothing_of_processes():
    rng = np.random.default_rng(2)
    noise = noise_of([1 + 0.03 * rng.standard_normal(100)], 20, 0.1)
    assert noise.between is None
    assert planned_length(noise, start_up_s=100.0).intervals == 100


def test_pilots_of_warm_up_alone_are_an_error():
    with pytest.raises(ValueError, match="longer than the cut"):
        noise_of([np.ones(20)], 20, 0.1)
    assert within_variance(np.ones(4)) == math.inf
