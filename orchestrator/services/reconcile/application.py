"""Applying: carrying out actions on the store and the cluster, each by itself."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from orchestrator.domain.errors import DamagedRow, DevicesTaken, JobRefused, NodeUnreachable, NotFound
from orchestrator.domain.failure import Failure, FailureKind
from orchestrator.domain.peaks import ARITHMETIC
from orchestrator.domain.placement import Placement
from orchestrator.domain.run import Attempt, Run, RunState
from orchestrator.services.clock import new_id, new_token
from orchestrator.services.conclude import conclude
from orchestrator.services.context import Context
from orchestrator.services.expectations import expected_of
from orchestrator.services.fetch_log import fetch_log
from orchestrator.services.job import build_job, device_keys
from orchestrator.services.reconcile.decisions import Action, Conclude, Fetch, Launch, Move, Review, Stop, Tell, Wait
from orchestrator.services.review import review

log = logging.getLogger(__name__)


def apply(context: Context, actions: Sequence[Action]) -> bool:
    """Carry out ``actions`` in order; whether anything changed that is worth another look at once.

    What fails for one run or node is logged and left to the next pass; the actions of that run that come after it are
    left out, because they may rest on it.

    Raises:
        StoreUnavailable: nothing further can be done.
    """
    changed = False
    spoiled: set[str] = set()
    for action in actions:
        run_id = None if isinstance(action, Review | Wait) else action.run.id
        if run_id in spoiled:
            continue
        try:
            changed |= _apply(context, action)
        except (NodeUnreachable, NotFound, DamagedRow) as error:  # also: somebody removed it just now
            log.info("%s: %s", type(action).__name__, error)
            if run_id:
                spoiled.add(run_id)
    return changed


def _apply(context: Context, action: Action) -> bool:
    store, now = context.store, context.clock.now()
    match action:
        case Launch(run, placement):
            return _launch(context, run, placement)
        case Wait(needs, reason):
            store.set_waiting(needs.key, reason)
            return False
        case Tell(run, nodes):
            return _tell(context, run, run.attempt, nodes)
        case Move(run, to):
            return store.move_run(run.id, run.state, to, at=now)
        case Stop(run, nodes, reason):
            return _stop(context, run, nodes, reason)
        case Fetch(run, node):
            return _fetch(context, run, node)
        case Conclude(run, lost):
            return conclude(context, run, _loss(lost))
        case Review(experiment_id):
            return review(context, experiment_id)


def _launch(context: Context, run: Run, placement: Placement) -> bool:
    """Hold its devices, make the attempt durable, then tell its agents."""
    attempt_id = new_id("att")
    try:
        placement = context.cluster.hold(attempt_id, placement)
    except DevicesTaken as error:
        context.store.set_waiting(run.plan.needs.key, str(error))
        return False
    attempt = Attempt(
        id=attempt_id,
        run_id=run.id,
        number=len(run.attempts) + 1,
        token=new_token(),
        placement=placement,
        created_at=context.clock.now(),
    )
    if not context.store.begin_attempt(run.id, attempt):
        return False  # what is held for it is given back in the next pass
    _tell(context, run, attempt, placement.nodes)
    return True


def _tell(context: Context, run: Run, attempt: Attempt | None, nodes: Sequence[str]) -> bool:
    assert attempt is not None
    try:
        job = _job(context, run, attempt)
        for node in nodes:
            context.cluster.start(node, job)
    except JobRefused as error:
        _give_up(context, run, attempt, Failure(FailureKind(error.failure), str(error)))
        return True
    if set(nodes) == set(attempt.placement.nodes):
        context.store.move_run(run.id, RunState.PLACING, RunState.RUNNING, at=context.clock.now())
    return True


def _job(context: Context, run: Run, attempt: Attempt) -> Mapping[str, Any]:
    """The job of the attempt; the same again when it is told again."""
    taking_part = attempt.placement.nodes
    ports = {node: context.cluster.reserve(node, attempt.id) for node in taking_part} if len(taking_part) > 1 else None
    arithmetic = ARITHMETIC.get(run.plan.precision, run.plan.precision)
    calibrated = context.store.calibrated(device_keys(attempt.placement), arithmetic)
    expected = expected_of(context, run, attempt)
    return build_job(run, attempt, context.catalog, context.cluster.nodes(), ports, calibrated, expected)


def _give_up(context: Context, run: Run, attempt: Attempt, failure: Failure) -> None:
    """An agent refused: end the attempt where it may have started, and the run with it if it is worth no other."""
    for node in attempt.placement.nodes:
        context.cluster.stop(node, attempt.id, failure.kind)
    now = context.clock.now()
    if context.store.move_run(run.id, RunState.PLACING, RunState.COLLECTING, at=now):
        conclude(context, replace(run, attempts=(*run.attempts[: attempt.number - 1], attempt)), failure)


def _stop(context: Context, run: Run, nodes: Sequence[str], reason: FailureKind) -> bool:
    assert run.attempt is not None
    if run.attempt.stop_requested is None:
        context.store.request_stop(run.attempt.id, reason)
    for node in nodes:
        context.cluster.stop(node, run.attempt.id, reason)
    return False


def _fetch(context: Context, run: Run, node: str) -> bool:
    assert run.attempt is not None
    try:
        return fetch_log(context, run.attempt.id, node)
    except NotFound:
        # Acknowledged to its end and deleted in an earlier pass, or swept away: the next look tells which.
        return False


def _loss(lost: Sequence[str]) -> Failure | None:
    if not lost:
        return None
    return Failure(FailureKind.NODE_LOST, f"the log of {', '.join(lost)} ended without a word: the node was lost")
