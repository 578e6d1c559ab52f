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


def an_interval(step: int, rank: int = 0, duration_s: float = 0.5) -> dict[str, Any]:
    at = f"2026-01-01T00:{step // 60:02}:{step % 60:02}Z"
    return {"at": at, "rank": rank, "first_step": step, "n": 2, "duration_s": duration_s}


def test_a_run_is_drawn_with_its_phases_and_no_outlier_is_thinned_away() -> None:
    ran = {"id": "run_1", "summary": {"steady": {"warmup_steps": 10}}}
    steps = [an_interval(step, duration_s=3.0 if step == 1234 else 0.5) for step in range(1, 3000)]
    busy = [{"metric": "core_active_s", "subject": f"core:{core}", "value": 1.0} for core in (0, 1)]
    reading = {"at": "2026-01-01T00:51:00Z", "node": "n0", "window_s": 2.0, "values": busy}
    above, below = run.figure(ran, steps, [reading])["vconcat"]
    shades, line = (layer["data"]["values"] for layer in above["layer"])
    assert [one["phase"] for one in shades] == ["warm-up", "timed", "after"]
    assert shades[0]["to"] == pytest.approx(8.5)  # the interval of steps 9 and 10 ended then
    assert len(line) <= 2 * run.MOST_POINTS
    assert max(one["ms"] for one in line) == 1500.0
    assert below["layer"][1]["data"]["values"] == [
        {"s": pytest.approx(3060 - 0.5), "busy": 1.0, "what": "CPU cores busy"}
    ]
    with pytest.raises(ValueError, match="no interval"):
        run.figure(ran, [], [reading])


def test_a_curve_is_printed_with_what_it_is_a_curve_of(capsys: pytest.CaptureFixture[str]) -> None:
    _print_summary(a_run([0.25, 0.875])["summary"])
    text = capsys.readouterr().out
    assert "top_1_accuracy_ratio on samples that are kept apart (higher is better, the target is 0.8)" in text
    assert "0.875" in text
    assert "curve" not in text
