"""The table of states and the tables beside it: total, and without ways around them."""

import itertools

import pytest

from orchestrator.domain.runs.run import (
    MOVES,
    TERMINAL,
    ExperimentState,
    IllegalMove,
    RunState,
    experiment_outcome,
    transition,
)
from orchestrator.domain.value.failure import MAX_ATTEMPTS, Failure, FailureKind, may_retry
from workers.trainer import protocol


def test_every_state_stands_in_the_table() -> None:
    assert set(MOVES) == set(RunState)
    assert {RunState.COMPLETED, RunState.FAILED, RunState.CANCELLED} == TERMINAL


LEGAL = {
    (RunState.QUEUED, RunState.PLACING),
    (RunState.QUEUED, RunState.CANCELLED),
    (RunState.QUEUED, RunState.FAILED),
    (RunState.PLACING, RunState.RUNNING),
    (RunState.PLACING, RunState.COLLECTING),
    (RunState.RUNNING, RunState.COLLECTING),
    (RunState.COLLECTING, RunState.COMPLETED),
    (RunState.COLLECTING, RunState.FAILED),
    (RunState.COLLECTING, RunState.CANCELLED),
    (RunState.COLLECTING, RunState.QUEUED),
}


@pytest.mark.parametrize(("state", "to"), list(itertools.product(RunState, RunState)))
def test_these_moves_are_legal_and_no_others(state: RunState, to: RunState) -> None:
    if (state, to) in LEGAL:
        assert transition(state, to) is to
    else:
        with pytest.raises(IllegalMove):
            transition(state, to)


def test_every_state_can_be_reached_and_left_for_an_end() -> None:
    for state in RunState:
        reached = {state}
        while more := {to for known in reached for to in MOVES[known]} - reached:
            reached |= more
        assert reached & TERMINAL
    assert {to for exits in MOVES.values() for to in exits} == set(RunState)


def test_the_failure_kinds_are_those_of_the_protocol() -> None:
    of_the_service = (FailureKind.INTERNAL_ERROR,)
    assert (*protocol.FAILURE_KINDS, *of_the_service) == tuple(FailureKind)
    assert set(MAX_ATTEMPTS) == set(FailureKind)
    assert set(protocol.EXIT_STATUS) <= set(protocol.FAILURE_KINDS)


@pytest.mark.parametrize("kind", [FailureKind.OUT_OF_MEMORY, FailureKind.DIVERGED])
def test_out_of_memory_and_divergence_are_never_retried(kind: FailureKind) -> None:
    assert not may_retry(Failure(kind, ""), attempts_made=1)


@pytest.mark.parametrize("kind", [FailureKind.NODE_LOST, FailureKind.NO_SPACE])
def test_a_lost_node_and_a_full_disk_are_tried_again_but_not_for_ever(kind: FailureKind) -> None:
    lost = Failure(kind, "")
    assert may_retry(lost, 1)
    assert may_retry(lost, 2)
    assert not may_retry(lost, 3)


def test_a_time_out_is_retried_only_before_the_first_step() -> None:
    assert may_retry(Failure(FailureKind.TIMED_OUT, "", before_first_step=True), 1)
    assert not may_retry(Failure(FailureKind.TIMED_OUT, "", before_first_step=True), 2)
    assert not may_retry(Failure(FailureKind.TIMED_OUT, ""), 1)


def test_a_killed_process_is_tried_again_only_where_the_next_attempt_goes_on_from_a_checkpoint() -> None:
    killed = Failure(FailureKind.CRASHED, "", signal="SIGKILL")
    assert not may_retry(killed, 1)
    assert may_retry(killed, 2, resumes=True)
    assert not may_retry(killed, 3, resumes=True)
    assert not may_retry(Failure(FailureKind.CRASHED, "", signal="SIGSEGV"), 1, resumes=True)


@pytest.mark.parametrize(
    ("cancelled", "states", "outcome"),
    [
        (True, [RunState.COMPLETED, RunState.FAILED], ExperimentState.CANCELLED),
        (False, [RunState.COMPLETED, RunState.FAILED], ExperimentState.FAILED),
        (False, [RunState.COMPLETED, RunState.CANCELLED], ExperimentState.COMPLETED),
        (False, [RunState.COMPLETED], ExperimentState.COMPLETED),
    ],
)
def test_the_outcome_of_an_experiment(cancelled: bool, states: list[RunState], outcome: ExperimentState) -> None:
    assert experiment_outcome(cancelled, states) is outcome
