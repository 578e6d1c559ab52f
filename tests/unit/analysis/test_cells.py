"""The runs of a cell from one common cut on."""

import numpy as np
import pytest

from orchestrator.analysis.analyse import analyse
from orchestrator.analysis.cell.cells import recut
from orchestrator.domain.value.measurement import Analysis
from orchestrator.domain.value.timed_intervals import MOST, Series
from tests.unit.analysis.logs import BATCH, NODE, STEP_S, a_job, a_log, durations, quiet


def a_run(seed, n=120, warm=0.0, fold=8.0, deviation=0.02):
    """The analysis of a run whose first intervals take ``warm`` more, fading with an e-fold of ``fold``."""
    times = durations(n, deviation, seed) * (1 + warm * np.exp(-np.arange(n) / fold))
    return analyse({NODE: a_log(timed=times, readings=quiet())})


def rates(found):
    return [analysis.measurement("throughput").value for analysis in found.analyses]


def test_one_cut_holds_for_all_runs_and_what_depends_on_it_is_measured_from_there():
    runs = [a_run(seed, warm=0.5) for seed in range(6)]
    found = recut(runs)
    assert 12 <= found.cut.first <= 60
    for run, renewed in zip(runs, found.analyses, strict=True):
        times = np.array(run.series.durations_s[found.cut.first :])
        by_hand = {
            "throughput": BATCH * len(times) / times.sum(),
            "step_time_s": times.mean(),
            "step_time_p90_s": np.percentile(times, 90),
        }
        for metric, value in by_hand.items():
            assert renewed.measurement(metric).value == pytest.approx(value)
    assert np.mean(rates(found)) == pytest.approx(BATCH / STEP_S, rel=0.01)


def test_the_warm_up_that_is_reported_is_the_cells_with_what_ran_before_the_timed_phase():
    runs = [a_run(seed, warm=0.5) for seed in range(6)]
    found = recut(runs)
    steps = {analysis.measurement("warmup_steps").value for analysis in found.analyses}
    assert steps == {found.cut.first + 1}, "one step before the timed phase"


def test_a_run_too_short_for_the_cut_is_a_scout_whatever_its_speed():
    runs = [a_run(seed, n=400, warm=1.0, fold=30) for seed in range(4)] + [a_run(9, n=200, warm=1.0, fold=30)]
    found = recut(runs)
    assert (found.cut.first > 67, found.scouts) == (True, {4})


def test_the_cut_that_was_remembered_when_the_job_was_made_counts():
    job = a_job(stopping={"remembered_cut": 25})
    runs = [analyse({NODE: a_log(timed=durations(120, 0.02, seed), job=job)}) for seed in range(3)]
    assert recut(runs).cut.first >= 25
    assert runs[0].summary["steady"]["first_interval"] >= 25


def test_a_run_of_an_older_analysis_stays_as_it_is():
    run = a_run(1)
    old = Analysis.from_json(run.to_json() | {"series": None})
    found = recut([old])
    assert (found.cut, found.analyses[0].measurements) == (None, old.measurements)


def test_a_series_is_kept_short_and_says_how_many_intervals_are_joined():
    series = Series.of([0.1] * 5000, [2.0] * 5000, [1] * 5000)
    assert (len(series), series.width) == (1250, 4)
    assert len(series) <= MOST
    assert (series.durations_s[0], series.works[0], series.steps[0]) == (pytest.approx(0.4), 8.0, 4.0)
    assert Series.from_json(series.to_json()) == series
    assert series.to_json()["works"] == 8.0


def test_runs_of_unlike_lengths_are_brought_to_one_width():
    short = Series.of([0.1, 0.3] * 600, [1.0] * 1200, [1] * 1200)
    assert short.joined(2).durations_s == (pytest.approx(0.4),) * 600
