"""The rule that ends a timed phase."""

import numpy as np
import pytest

from orchestrator.analysis.series import mean_error
from orchestrator.analysis.steady import SteadyClass, judge
from tests.benchmarks import simulated
from workers.node.stopping import MAX_BATCHES, StoppingRule, effective_and_half_width, student_975

LIMITS = {"max_steps": 1000, "half_width_ratio": 0.01, "min_effective_intervals": 50, "max_duration_s": None}


def _stop(durations, works, **limits):
    rule = StoppingRule({**LIMITS, **limits})
    for index, (duration, work) in enumerate(zip(durations, works, strict=True)):
        rule.add(float(duration), float(work), 1)
        if rule.decision():
            return index + 1, rule.decision()
    return len(durations), None


def test_it_goes_on_at_first():
    assert _stop([0.4] * 20, [4] * 20) == (20, None)


def test_a_quiet_run_stops_soon_because_it_is_precise():
    durations, works, _ = simulated.level(np.random.default_rng(1), 1000, 0.02)
    n, decision = _stop(durations, works)
    assert decision["reason"] == "precise"
    assert 60 <= n <= 130
    assert decision["steps"] == n
    assert decision["detail"]["effective_intervals"] >= 60
    assert decision["detail"]["half_width_ratio"] <= 0.01


def test_a_noisy_run_goes_on_until_the_interval_is_narrow():
    durations, works, _ = simulated.level(np.random.default_rng(2), 1000, 0.08)
    n, decision = _stop(durations, works)
    assert decision["reason"] == "precise"
    assert 180 <= n <= 500


def test_the_limits_of_steps_and_of_time_end_a_run_that_never_gets_precise():
    durations, works, _ = simulated.level(np.random.default_rng(3), 1000, 0.2)
    assert _stop(durations, works, max_steps=100)[1]["reason"] == "max_steps"
    assert _stop(durations, works, max_duration_s=10.0)[1]["reason"] == "max_duration"
    assert _stop(durations, works, max_steps=None)[1] is None


def test_a_decision_stays():
    rule = StoppingRule({**LIMITS, "max_steps": 1})
    rule.add(1.0, 1.0, 1)
    first = rule.decision()
    rule.add(1.0, 1.0, 1)
    assert rule.decision() is first
    assert first["steps"] == 1


def test_a_drifting_run_is_not_called_precise():
    durations, works, _ = simulated.drift(np.random.default_rng(4), 300, 0.01, size=0.3)
    assert _stop(durations, works)[1] is None


def test_intervals_of_no_time_or_no_work_are_refused():
    rule = StoppingRule(LIMITS)
    for duration, work in ((0.0, 1.0), (1.0, 0.0), (float("nan"), 1.0)):
        with pytest.raises(ValueError, match="an interval of"):
            rule.add(duration, work, 1)


def test_memory_is_bounded_and_batches_keep_the_estimate_careful():
    rng = np.random.default_rng(5)
    rule = StoppingRule({"half_width_ratio": 1e-9})
    for duration in 1 + 0.1 * rng.standard_normal(5000):
        rule.add(float(duration), 1.0, 1)
    assert len(rule._works) < MAX_BATCHES
    rule._look()
    assert rule._detail["effective_intervals"] <= 5000


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.8])
def test_it_computes_what_the_analysis_computes(phi):
    values = simulated.autoregressive(np.random.default_rng(6), 200, phi)
    effective, half_width = effective_and_half_width(list(values))
    reference = mean_error(values)
    assert effective == pytest.approx(reference.effective)
    assert half_width == pytest.approx(reference.half_width, rel=1e-3)


def test_quantiles_of_student():
    assert student_975(5) == pytest.approx(2.5706, abs=2e-3)
    assert student_975(60) == pytest.approx(2.0003, abs=1e-4)


@pytest.mark.parametrize("phi", [0.0, 0.4])
def test_what_it_stops_the_analysis_calls_steady(phi):
    rng = np.random.default_rng(7)
    states = []
    for _ in range(40):
        durations, works, _ = simulated.warmup(rng, 1000, 0.03, phi, size=0.5, length=3.0)
        n, _ = _stop(durations, works)
        states.append(judge(durations[:n], works[:n], [1] * n).state)
    assert states.count(SteadyClass.STEADY) >= 35, states
