"""The rule that ends a timed phase: it counts, and never looks at how the durations vary."""

import pytest

from workers.node.event_log import EventLog
from workers.node.length import Length
from workers.node.stopping import StoppingRule

LENGTH = {"intervals": 60, "seconds": 3.0, "max_steps": None, "max_duration_s": None}


def _stop(durations, steps=1, **limits):
    rule = StoppingRule({**LENGTH, **limits})
    for index, duration in enumerate(durations):
        rule.add(duration, 4.0, steps)
        if rule.decision():
            return index + 1, rule.decision()
    return len(durations), None


def test_a_run_ends_when_it_has_both_its_intervals_and_its_seconds():
    n, decision = _stop([0.4] * 200)
    assert (n, decision["reason"], decision["steps"]) == (60, "length", 60)
    assert decision["detail"]["planned_intervals"] == 60
    assert _stop([1 / 64] * 400)[0] == 192, "three seconds"


def test_how_the_durations_vary_decides_nothing():
    even, uneven = [0.5] * 100, [0.1, 0.9] * 50
    assert _stop(even)[0] == _stop(uneven)[0] == 60


def test_the_limits_of_a_person_end_a_run_before_its_length():
    assert _stop([0.4] * 200, max_steps=40)[1]["reason"] == "max_steps"
    n, decision = _stop([0.4] * 200, max_duration_s=10.0)
    assert (n, decision["reason"]) == (25, "max_duration")


def test_without_a_length_only_limits_end_a_run():
    assert _stop([0.4] * 200, intervals=None)[1] is None
    assert _stop([0.4] * 200, intervals=None, max_steps=100)[0] == 100
    assert StoppingRule({}).decision() is None


def test_steps_are_counted_apart_from_intervals():
    n, decision = _stop([0.4] * 200, steps=10, max_steps=100)
    assert (n, decision["steps"]) == (10, 100)


def test_a_decision_stays():
    rule = StoppingRule({"max_steps": 1})
    rule.add(1.0, 1.0, 1)
    first = rule.decision()
    rule.add(1.0, 1.0, 1)
    assert rule.decision() is first
    assert first["steps"] == 1


def test_intervals_of_no_time_or_no_work_are_refused():
    rule = StoppingRule(LENGTH)
    for duration, work in ((0.0, 1.0), (1.0, 0.0), (float("nan"), 1.0)):
        with pytest.raises(ValueError, match="an interval of"):
            rule.add(duration, work, 1)


def test_a_node_without_rank_0_knows_that_timing_has_begun_and_decides_nothing(tmp_path):
    length = Length({"stopping": {**LENGTH, "intervals": 0, "seconds": 0.0}}, leads=False)
    assert length.timing_since is None
    length.begun()
    log = EventLog(tmp_path / "log.jsonl")
    length.decide(log, 1e9, reachable=True)
    assert (length.timing_since is not None, log.last_seq) == (True, 0)
