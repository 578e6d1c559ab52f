"""The figure of quality over time, and the printed curve of a run."""

from typing import Any

import pytest

from orchestrator.cli.printing.tables import _print_summary
from orchestrator.reports.figures import run
from orchestrator.reports.figures.convergence import figure


def a_run(qualities: list[float | None], repetition: int = 1, **told: Any) -> dict[str, Any]:
    curve = [
        {"step": step, "trained_s": step / 2, "elapsed_s": step / 2 + 1, "quality": quality, "loss": 1.0, "samples": 50}
        for step, quality in enumerate(qualities, start=1)
    ]
    found = {"metric": "top_1_accuracy_ratio", "better": "higher", "target": 0.8, "curve": curve} | told
    plan = {"model": "net", "framework": "pytorch", "repetition": repetition}
    return {"plan": plan, "summary": {"steps": 3, "convergence": found}}


def test_every_run_has_a_line_and_the_target_one_across() -> None:
    runs = [a_run([0.1, 0.5, 0.82]), a_run([0.2, 0.4, None], 2), {"plan": {}, "summary": None}]
    curves, target = figure(runs)["layer"]
    assert [row["run"] for row in curves["data"]["values"]] == ["net pytorch 1"] * 3 + ["net pytorch 2"] * 2
    assert target["data"]["values"] == [{"quality": 0.8, "text": "target 0.8"}]


def test_there_is_no_figure_of_nothing_and_none_of_two_metrics() -> None:
    with pytest.raises(ValueError, match="no run has been evaluated twice"):
        figure([a_run([0.5])])
    with pytest.raises(ValueError, match="different metrics"):
        figure([a_run([0.5, 0.6]), a_run([9.0, 8.0], metric="perplexity")])


def test_a_run_is_drawn_with_its_phases_and_what_was_least_and_greatest() -> None:
    steps = {"metric": "step_time_s", "subject": "rank 0", "points": [[0.5, 0.5, 0.5], [9.0, 0.5, 3.0]]}
    busy = {"metric": "cpu_cores_busy", "subject": "n0", "points": [[10.0, 1.5, 1.5]]}
    found = {"items": [busy, steps], "end_s": 10.0, "phases": {"warm-up": 2.0, "timed": 9.0}}
    above, below = run.figure("run_1", found)["vconcat"]
    shades, line = (layer["data"]["values"] for layer in above["layer"])
    assert [tuple(one.values()) for one in shades] == [(0.0, 2.0, "warm-up"), (2.0, 9.0, "timed"), (9.0, 10.0, "after")]
    assert [one["value"] for one in line] == [500.0, 500.0, 3000.0]
    assert below["layer"][1]["data"]["values"] == [{"s": 10.0, "value": 1.5, "what": "CPU cores busy"}]
    (one,) = run.figure("run_1", found, 3.0, 8.0)["vconcat"][0]["layer"][0]["data"]["values"]
    assert one == {"from": 3.0, "to": 8.0, "phase": "timed"}
    with pytest.raises(ValueError, match="no step"):
        run.figure("run_1", found | {"items": [busy]})


def test_a_curve_is_printed_with_what_it_is_a_curve_of(capsys: pytest.CaptureFixture[str]) -> None:
    _print_summary(a_run([0.25, 0.875])["summary"])
    text = capsys.readouterr().out
    assert "top_1_accuracy_ratio on samples that are kept apart (higher is better, the target is 0.8)" in text
    assert "0.875" in text
    assert "curve" not in text
