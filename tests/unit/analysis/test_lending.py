"""What earlier sessions lend."""

import math

import numpy as np
import pytest
from scipy import stats

from orchestrator.analysis.cell.lending import Session, lend, movement_of


def _session(rng, deviation, within=0.0, intervals=60, runs=6, level=100.0):
    spread = math.hypot(deviation, math.sqrt(within / intervals))
    return Session(tuple(level * (1 + spread * rng.standard_normal(runs))), within, intervals)


def test_fewer_than_three_sessions_lend_nothing():
    rng = np.random.default_rng(1)
    two = [_session(rng, 0.02) for _ in range(2)]
    assert lend(two) is None
    assert lend([*two, Session((100.0,), 0.0, 60)]) is None
    assert lend([*two, Session((100.0, 0.0), 0.0, 60)]) is None, "0 is no rate"
    assert movement_of(two) is None


def test_the_deviation_is_that_of_the_sessions_and_it_says_from_how_many():
    rng = np.random.default_rng(2)
    lent = lend([_session(rng, 0.02) for _ in range(40)])
    assert lent.deviation_ratio == pytest.approx(0.02, rel=0.1)
    assert lent.sessions == 40
    assert "lent by 40 earlier sessions" in lent.text


def test_sessions_that_agree_lend_students_interval_and_others_a_wider_one():
    agree = [Session(tuple(100 * math.exp(d) for d in (-0.02, 0.0, 0.02)), 0.0, 60)] * 4
    assert lend(agree).half_width_ratio == pytest.approx(stats.t.ppf(0.975, 2) * 0.02)
    assert lend(agree).half_width(4) == pytest.approx(stats.t.ppf(0.975, 2) * 0.02 / 2)
    differ = [Session((100 - d, 100.0, 100 + d), 0.0, 60) for d in (0.5, 1.0, 2.0, 3.3)]
    assert lend(differ).deviation_ratio == pytest.approx(0.02, rel=0.02)
    assert lend(differ).half_width_ratio > 1.3 * lend(agree).half_width_ratio


def test_sessions_that_never_varied_lend_nothing():
    assert lend([Session((100.0, 100.0), 0.0, 60)] * 3) is None


def test_the_part_within_runs_is_rescaled_to_the_length_of_the_cell():
    within = 0.09**2  # relative variance of an interval
    rng = np.random.default_rng(3)
    sessions = [_session(rng, 0.0, within, intervals=90) for _ in range(200)]
    assert lend(sessions, within, 90).deviation_ratio == pytest.approx(0.09 / math.sqrt(90), rel=0.15)
    assert lend(sessions, within, 30).deviation_ratio == pytest.approx(0.09 / math.sqrt(30), rel=0.15)


@pytest.mark.parametrize("sessions", [3, 6, 12])
@pytest.mark.parametrize("runs", [1, 2, 3])
@pytest.mark.after_change
def test_the_interval_of_few_runs_covers_where_sessions_scatter(sessions, runs):
    rng = np.random.default_rng(4)
    held = []
    for _ in range(600):
        deviations = 0.02 * np.exp(0.6 * rng.standard_normal(sessions + 1))
        lent = lend([_session(rng, deviation) for deviation in deviations[:-1]])
        mean = np.mean(np.log(_session(rng, deviations[-1], runs=runs).rates))
        held.append(abs(mean - math.log(100.0)) <= lent.half_width(runs))
    assert np.mean(held) >= 0.92


def test_how_far_a_series_moves_is_what_its_runs_do_not_explain():
    rng = np.random.default_rng(5)
    still = [_session(rng, 0.02) for _ in range(60)]
    moving = [_session(rng, 0.02, level=100 * math.exp(0.05 * rng.standard_normal())) for _ in range(60)]
    assert movement_of(still).deviation_ratio < 0.006
    assert movement_of(moving).deviation_ratio == pytest.approx(0.05, rel=0.25)
    assert movement_of(moving).degrees == 59


def test_sessions_of_runs_too_short_to_know_their_variance_lend_nothing_and_break_nothing():
    """``length.within_variance`` of a few intervals is infinite."""
    rng = np.random.default_rng(3)
    short = [Session(_session(rng, 0.02).rates, math.inf, 3.0) for _ in range(3)]
    assert lend(short, None, 3.0) is None
    known = [_session(rng, 0.02) for _ in range(3)]
    assert lend([*known, *short], None, 3.0) == lend(known, None, 3.0)
    assert movement_of(short) is not None
