"""The checker finds a breach of each promise, and nothing where all were kept."""

import math
from dataclasses import replace
from typing import Any

import pytest

from orchestrator.domain.runs.run import RunState
from orchestrator.domain.runs.stored import Change
from tests.support.promises import FIGURES, Evidence, Span, Training, breaches
from tests.unit import builders as make

ONE, TWO = make.attempt("run_1", 1), make.attempt("run_1", 2, created_at=100.0)
RUN = make.run("run_1", RunState.COMPLETED, attempts=(ONE, TWO), analysis=make.analysis())
FLAGGED = replace(RUN, attempts=(replace(ONE, alive_at=101.0), TWO))


def change(number: int, state: str, **data: Any) -> Change:
    return Change(number, float(number), "exp_1", "run_1", state, data)


MOVES = [change(number, state) for number, state in enumerate(["queued", "placing", "collecting", "completed"])]
# Node n0 was heard of for the last time at 10 s, and taken for dead at 80; the run began again at 100.
KEPT = Evidence(
    acknowledged={"exp_1": ["run_1"]},
    runs={"exp_1": [RUN]},
    changes=MOVES,
    trainings=[Training(ONE.id, "n0", 2.0, 70.0), Training(TWO.id, "n1", 101.0, 110.0)],
    spans={ONE.id: Span(1.0, 80.0), TWO.id: Span(100.0, 112.0)},
    fence_s=60.0,
    results={"run_1": [TWO.id]},
    told={"run_1": [RunState.COMPLETED]},
    due={"run_1": 120.0},
    over={"run_1": 112.0},
    contacts={"n0": [0.0, 10.0], "n1": [104.0, 111.0]},
    removed={(TWO.id, "n1"): 21},
    kept={(TWO.id, "n1"): 21},
)
OVERLAP = [Training(ONE.id, "n0", 2.0, 105.0), KEPT.trainings[1]]
PLANTED = {
    "an experiment is gone": ("P1", {"runs": {}}),
    "one of its runs is gone": ("P1", {"acknowledged": {"exp_1": ["run_1", "run_2"]}}),
    "a training of no attempt": ("P2", {"trainings": [Training("att_9", "n0", 1.0, 2.0)]}),
    "a training before its attempt": ("P2", {"trainings": [Training(ONE.id, "n0", 0.5, 2.0)]}),
    "completed twice": ("P3", {"changes": [*MOVES, change(9, "completed")]}),
    "results of an attempt that was over": ("P3", {"results": {"run_1": [ONE.id]}}),
    "results of both": ("P3", {"results": {"run_1": [ONE.id, TWO.id]}}),
    "a log that nobody kept": ("P3", {"kept": {(TWO.id, "n1"): 20}}),
    "ran twice": ("P4", {"trainings": OVERLAP}),
    "completed, then failed": ("P5", {"changes": [*MOVES, change(9, "failed")]}),
    "a row that nobody moved": ("P5", {"runs": {"exp_1": [replace(RUN, state=RunState.FAILED)]}}),
    "said to be cancelled": ("P5", {"told": {"run_1": [RunState.CANCELLED]}}),
    "over too late": ("P6", {"over": {"run_1": 121.0}}),
    "never over": (
        "P6",
        {"runs": {"exp_1": [replace(RUN, state=RunState.PLACING)]}, "changes": MOVES[:2], "told": {}, "results": {}},
    ),
    "given up within the fence": ("P7", {"spans": {**KEPT.spans, TWO.id: Span(100.0, 105.0)}}),
}


def test_where_all_was_kept_nothing_is_found() -> None:
    assert breaches(KEPT) == []


@pytest.mark.parametrize("what", PLANTED)
def test_a_breach_is_found(what: str) -> None:
    promise, planted = PLANTED[what]
    assert {one.promise for one in breaches(replace(KEPT, **planted))} == {promise}  # type: ignore[arg-type]


def test_every_promise_has_a_breach_and_a_figure() -> None:
    assert {promise for promise, _ in PLANTED.values()} == {*FIGURES} == {f"P{number}" for number in range(1, 8)}


def test_what_ran_twice_and_says_so_is_no_breach() -> None:
    told = [*MOVES, change(9, "completed", may_have_run_twice=True)]
    evidence = replace(KEPT, runs={"exp_1": [FLAGGED]}, trainings=OVERLAP, changes=told)
    assert breaches(evidence) == []
    assert [one.promise for one in breaches(replace(evidence, trainings=[*OVERLAP[:1]], fence_s=math.inf))] == ["P7"]
