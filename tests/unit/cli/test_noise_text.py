"""How noisy a machine is, as a person reads it."""

import copy
from typing import Any

import numpy as np

from orchestrator.analysis.probe import noise
from orchestrator.reports.numbers import NOTHING
from orchestrator.reports.tables import noise_table

FACTS = {"device": "cpu:0-1", "kernel": "steps of a small training in numpy", "timed_s": 60.0}
CALM = {"foreign_ratio": 0.02, "stolen_ratio": 0.001}


def found(**changes: Any) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    series = [0.025 * mean * (1 + 0.03 * rng.standard_normal(100)) for mean in 1 + 0.02 * rng.standard_normal(20)]
    return FACTS | CALM | noise.judge(series).to_json() | changes


def test_each_figure_stands_in_the_text() -> None:
    shown = noise_table.text(found(), 100)
    assert shown.startswith("20 fresh processes on cpu:0-1, 100 intervals of 25")
    for words in ("between processes", "within a process", "levels", "none seen", "the hypervisor took 0.100 %"):
        assert words in shown
    (row,) = (line for line in shown.splitlines() if line.startswith("half-width"))
    needed = noise.judge([[1.0] * 20] * 3).runs_needed
    assert len(row.split("(")) == 1 + len(needed)
    assert "Something else" not in shown


def test_what_was_wrong_with_the_time_is_said() -> None:
    shift = {"process": 3, "interval": 40, "ratio": 1.07}
    shown = noise_table.text(
        found(foreign_ratio=0.3, stolen_ratio=None, alike=True, neighbours=0.7, shifts=[shift]), 100
    )
    assert "Something else was running" in shown
    assert "hypervisor" not in shown
    assert "1 changes inside 1 of 20 processes, by 7.0" in shown
    assert "correlation 0.70" in " ".join(shown.split())
    assert "Runs that follow each other share a level" in shown


def test_more_runs_than_anybody_would_do_have_no_number() -> None:
    hopeless = copy.deepcopy(found())
    hopeless["runs_needed"][0] |= {"half_width_runs": None, "half_width_runs_at_most": None}
    hopeless["runs_needed"][1] |= {"half_width_runs": 70_000, "half_width_runs_at_most": None}
    shown = noise_table.text(hopeless, 100)
    assert "more than 100,000" in shown
    assert f"70000 ({NOTHING})" in shown
