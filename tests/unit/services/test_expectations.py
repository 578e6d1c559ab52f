"""What stored runs say about the next one of their cell, and what a row says of earlier sessions: over a real store."""

import json
from functools import cache

import numpy as np

from orchestrator.analysis.analyse import analyse
from orchestrator.domain.runs.run import Run
from orchestrator.domain.value.measurement import Analysis
from orchestrator.services.reconcile.expectations import expected_of
from tests.unit import builders
from tests.unit.analysis.logs import NODE, a_job, a_log, durations, quiet
from tests.unit.api.api_rig import Rig, fingerprint_of
from tests.unit.api.conftest import rig

__all__ = ["rig"]


@cache
def a_run(seed: int, expected: str) -> Analysis:
    """A real analysis: each seed is a process of its own, a few per cent faster or slower. ``expected``: of it, as
    JSON."""
    level = 1 + 0.03 * np.random.default_rng(1000 + seed).standard_normal()
    return analyse(
        {NODE: a_log(timed=level * durations(100, 0.02, seed), readings=quiet(), job=a_job(**json.loads(expected)))}
    )


def carried_out(rig: Rig, seed: int, runs: int = 3) -> list[Run]:
    """An experiment of one cell that has ended, each job with what was expected of it."""
    experiment = rig.submit(repeats=runs, max_repeats=runs)
    for offset, run in enumerate(rig.store.runs_of(experiment["id"])):
        expected = expected_of(rig.context, run, builders.attempt(run.id))
        rig.start(run.id)
        rig.finish(run.id, a_run(10 * seed + offset, json.dumps(expected.to_job())), fingerprint=fingerprint_of())
    return list(rig.store.runs_of(experiment["id"]))


def row_of(rig: Rig, runs: list[Run]) -> dict[str, object]:
    (row,) = rig.get(f"/experiments/{runs[0].experiment_id}/results")["items"]
    return dict(row)


def test_the_first_run_of_all_is_long_and_later_sessions_remember_the_cut(rig: Rig) -> None:
    (first, *_) = carried_out(rig, 1)
    unknown = expected_of(rig.context, first, builders.attempt(first.id, nodes=("another",)))
    assert (unknown.length.intervals, unknown.remembered_cut, unknown.sessions) == (100, None, ())
    (later, *_) = carried_out(rig, 2)
    known = expected_of(rig.context, later, builders.attempt(later.id))
    assert known.remembered_cut is not None
    assert [len(session.rates) for session in known.sessions] == [3]


def test_three_sessions_lend_a_single_run_its_deviation_and_say_so(rig: Rig) -> None:
    for seed in (1, 2):
        carried_out(rig, seed)
    alone = row_of(rig, carried_out(rig, 3, runs=1))
    assert alone["throughput"]["ci_low"] is None
    assert "fewer than 3 earlier sessions" in alone["reasons"]["between_sessions"]
    carried_out(rig, 4)
    lent = row_of(rig, carried_out(rig, 5, runs=1))
    assert lent["throughput"]["ci_low"] < lent["throughput"]["value"] < lent["throughput"]["ci_high"]
    assert "lent by 3 earlier sessions" in lent["throughput"]["scope"]
    assert lent["between_sessions"]["sessions"] == 3


def test_later_history_never_changes_a_number(rig: Rig) -> None:
    for seed in (1, 2, 3):
        carried_out(rig, seed)
    runs = carried_out(rig, 4, runs=1)
    before = row_of(rig, runs)
    for seed in (5, 6):
        carried_out(rig, seed)
    assert row_of(rig, runs) == before


def test_two_sessions_are_compared_with_how_far_the_series_moves_or_that_is_not_known(rig: Rig) -> None:
    first, second = carried_out(rig, 1), carried_out(rig, 2)
    sides = {"baseline": first[0].experiment_id, "candidate": second[0].experiment_id}
    (item,) = rig.get("/compare", **sides)["items"]
    assert "is not known, and not in the interval" in item["text"]
    carried_out(rig, 3)
    fourth = carried_out(rig, 4)
    (item,) = rig.get("/compare", baseline=first[0].experiment_id, candidate=fourth[0].experiment_id)["items"]
    assert "with the series' movement between sessions" in item["difference"]["method"]
