"""Readings that lie across a border count in proportion."""

import pytest

from orchestrator.analysis.log import windows
from orchestrator.analysis.log.events import Interval, Reading
from orchestrator.analysis.log.windows import Span

READINGS = [Reading(end_t, 1.0, {("cpu_s", "attempt"): 0.5, ("power_w", "gpu"): end_t}) for end_t in (1.0, 2.0, 3.0)]


def test_an_amount_is_counted_by_the_share_of_its_window():
    assert windows.amount(READINGS, Span(0.5, 2.5), "cpu_s", "attempt") == (pytest.approx(1.0), pytest.approx(2.0))


def test_a_level_is_weighted_by_overlap():
    assert windows.mean(READINGS, Span(0.5, 2.0), "power_w", "gpu") == pytest.approx((1 * 0.5 + 2 * 1) / 1.5)


def test_nothing_read_is_none_not_zero():
    assert windows.mean(READINGS, Span(10, 11), "power_w", "gpu") is None
    assert windows.mean(READINGS, Span(0, 3), "power_w", "another") is None
    assert windows.amount(READINGS, Span(10, 11), "cpu_s", "attempt") == (0.0, 0.0)


def test_the_span_of_a_phase_begins_before_its_first_interval():
    intervals = [Interval(0, "warmup", 1, 1, 5.0, {"a": 1}, 6.0)]
    intervals += [Interval(0, "timed", step, 1, 1.0, {"a": 1}, 5.0 + step) for step in (2, 3, 4)]
    assert windows.span_of(intervals) == Span(6.0, 9.0)
    assert windows.span_of(intervals, first_step=3) == Span(7.0, 9.0)
    assert windows.span_of(intervals, first_step=9) is None
