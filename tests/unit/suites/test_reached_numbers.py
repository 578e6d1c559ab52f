"""Every ready suite reaches a number, however long a step takes: its runs played with simulated durations."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from orchestrator.analysis.cell.prospect import prospect
from orchestrator.analysis.statistics.settling import cut_of, scouts
from orchestrator.domain.asked.facts import Facts
from orchestrator.domain.asked.spec import parse_spec
from orchestrator.domain.expansion.sweep import expand
from orchestrator.domain.value.timed_intervals import Series
from orchestrator.services.facts.catalog import load_catalog
from workers.node.stopping import StoppingRule
from workers.trainer.loops.pace import Pace

FOLDER = Path(__file__).resolve().parents[3] / "suites"
GPU_INTERVAL_S = 0.2


def played(max_steps: int | None, stopping: dict[str, object], interval_s: float, step_s: float, seed: int) -> Series:
    """The timed intervals of a run whose steps take ``step_s``, a little noisy, as loop and agent would have them."""
    rng = np.random.default_rng(seed)
    pace, rule = Pace(interval_s, max_steps), StoppingRule(stopping)
    durations, steps = [], []
    while (proposal := pace.next()) is not None and rule.decision() is None:
        phase, n = proposal
        duration = step_s * n * (1 + 0.02 * rng.standard_normal() / np.sqrt(n))
        pace.note(n, duration)
        if phase == "timed":
            rule.add(duration, n, n)
            durations.append(duration)
            steps.append(n)
    return Series.of(durations, steps, steps)


@pytest.mark.parametrize("step_s", [0.002, 0.004, 0.015, 0.060, 0.200, 2.0])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.yaml")))
@pytest.mark.after_change
def test_a_ready_suite_reaches_a_number_at_any_pace(name: str, device: str, step_s: float) -> None:
    spec = parse_spec(yaml.safe_load((FOLDER / name).read_text()))
    plan = expand(spec, Facts(load_catalog(), "cpu", (1, 1)), [])[0]
    stopping = prospect((), (), plan.max_measure_s).to_job()["stopping"]
    stopping |= {"max_steps": plan.max_steps, "max_duration_s": plan.max_measure_s or plan.timeout_s / 2}
    interval_s = GPU_INTERVAL_S if device == "cuda" else 0.0
    series = [played(plan.max_steps, stopping, interval_s, step_s, seed) for seed in range(spec.repeats)]
    per_work = [np.array(one.durations_s) / np.array(one.works) for one in series]
    assert min(len(one) for one in series) >= (60 if spec.max_measure_s is None else 10)
    cut = cut_of(per_work)
    assert len(series) - len(scouts([len(one) for one in series], cut.first)) >= min(2, len(series))
