"""Applying: carrying out actions on the store and the cluster, those of each run and of each experiment in a lane."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from orchestrator.domain.runs.run import Attempt, ExperimentState, Run, RunState
from orchestrator.domain.value.failure import Failure, FailureKind
from orchestrator.domain.value.peaks import ARITHMETIC
from orchestrator.domain.words.errors import DevicesTaken, JobRefused, NodeFailed, NodeUnreachable, NotFound
from orchestrator.services.clock import new_id, new_token
from orchestrator.services.context import Context
from orchestrator.services.experiment.replay import NotReplayable, replayed
from orchestrator.services.reconcile.conclude import conclude
from orchestrator.services.reconcile.decisions import (
    Action,
    Conclude,
    End,
    Fetch,
    GiveUp,
    Launch,
    Move,
    Review,
    Stop,
    TakeOver,
    Tell,
    Wait,
)
from orchestrator.services.reconcile.expectations import expected_of
from orchestrator.services.reconcile.fetch_log import fetch_log
from orchestrator.services.reconcile.job import build_job, device_keys
from orchestrator.services.reconcile.lanes import Lanes
from orchestrator.services.reconcile.review import review
from orchestrator.services.reconcile.situation import OWN_TRIES, Launching, UnderWay, note
from orchestrator.services.reconcile.strays import take_over
from orchestrator.services.reconcile.trouble import Troubles

log = logging.getLogger(__name__)

QUEUE, BOOKS = "queue", "books"  # lanes of what belongs to no run


class Hands:
    """Carries out actions. What fails or hangs for one run, node or experiment is noted there and left to a later pass;
    the actions of that run that come after it in the same pass are left out, because they may rest on it."""

    def __init__(self, context: Context, lanes: Lanes, troubles: Troubles[str]) -> None:
        self._context = context
        self._lanes = lanes
        self._troubles = troubles
        self._launches: dict[str, Launching] = {}
        self._changed = False

    @property
    def changed(self) -> bool:
        """Whether something changed since the last actions were begun."""
        return self._changed

    def _note_change(self, changed: bool) -> None:
        if changed:  # never the other way: several lanes write it
            self._changed = True

    def under_way(self) -> UnderWay:
        """What is being done now. First the launches: one that ends meanwhile is then still in its lane."""
        launches = dict(self._launches)
        return UnderWay(self._lanes.under_way(), launches)

    def apply(self, actions: Sequence[Action], over: Sequence[str] = ()) -> bool:
        """Carry out ``actions``, and give back what is held for the attempts ``over``; whether anything changed that is
        worth another look at once. Returns while something may still be going on in lanes that are late."""
        self._changed = False
        busy = self._lanes.under_way()
        by_lane: dict[str, list[Action]] = {}
        for action in actions:
            by_lane.setdefault(_lane_of(action), []).append(action)
        for lane, of_lane in by_lane.items():
            if lane not in busy:  # of the queue: runs that are busy are not decided upon
                self._begin(lane, of_lane)
        if over and BOOKS not in busy:
            self._lanes.put(BOOKS, lambda: self._give_back(over))
        self._lanes.settle([*by_lane, BOOKS])
        self._lanes.settle([action.run.experiment_id for action in actions if isinstance(action, Conclude | GiveUp)])
        return self._changed

    def _begin(self, lane: str, actions: Sequence[Action]) -> None:
        launches: dict[str, Launch] = {}
        for action in actions:
            if isinstance(action, Launch):
                attempt_id = new_id("att")
                launches[attempt_id] = action
                is_guest = action.lent_by is not None
                self._launches[attempt_id] = Launching(action.placement, action.run.plan.exclusive, is_guest)
        self._lanes.put(lane, lambda: self._carry_out(lane, actions, launches))

    def _carry_out(self, who: str, actions: Sequence[Action], launches: Mapping[str, Launch]) -> None:
        try:
            for action in actions:
                self._note_change(self._apply(action, next(iter(launches), "")))
            if not any(isinstance(action, Stop) for action in actions):  # a hopeless run is stopped: it stays hopeless
                self._troubles.well(who)
        except Exception as error:
            note(self._troubles, who, type(action).__name__, error)
        finally:
            for attempt_id in launches:
                del self._launches[attempt_id]

    def _give_back(self, over: Sequence[str]) -> None:
        try:
            self._context.cluster.let_go(over)
        except Exception as error:
            note(self._troubles, BOOKS, "what is held cannot be given back", error)

    def _apply(self, action: Action, attempt_id: str) -> bool:
        context, store, now = self._context, self._context.store, self._context.clock.now()
        match action:
            case Launch(run):
                attempt = _launch(context, action, attempt_id)
                return attempt is not None and self._tell(run, attempt, attempt.placement.nodes)
            case Wait(needs, reason):
                store.set_waiting(needs.key, reason)
                return False
            case Tell(run, nodes):
                assert run.attempt is not None
                return self._tell(run, run.attempt, nodes)
            case Move(run, to):
                return store.move_run(run.id, run.state, to, at=now)
            case Stop(run, nodes, reason):
                return _stop(context, run, nodes, reason)
            case End(attempt_id, nodes):
                if trouble := _stop_all(context, attempt_id, nodes, FailureKind.CANCELLED):
                    raise trouble
                return False
            case TakeOver(stray):
                take_over(context, stray)
                return False
            case Fetch(run, node):
                return _fetch(context, run, node)
            case Conclude(run, lost):
                return self._followed_up(run, conclude(context, run, _loss(lost)))
            case GiveUp(run, failure):
                return self._followed_up(run, _give_up(context, run, failure))
            case Review(experiment_id):
                return self._review(experiment_id)

    def _tell(self, run: Run, attempt: Attempt, nodes: Sequence[str]) -> bool:
        """Tell the agents of ``nodes``; where one refuses, the attempt is over."""
        try:
            job = _job(self._context, run, attempt)
            for node in nodes:
                self._context.cluster.start(node, job)
        except JobRefused as error:
            begun = replace(run, state=RunState.PLACING, attempts=(*run.attempts[: attempt.number - 1], attempt))
            failure = Failure(FailureKind(error.failure), str(error))
            self._followed_up(run, _give_up(self._context, begun, failure, analysed=True))
            return True
        if set(nodes) == set(attempt.placement.nodes):
            self._context.store.move_run(run.id, RunState.PLACING, RunState.RUNNING, at=self._context.clock.now())
        return True

    def _followed_up(self, run: Run, is_over: bool) -> bool:
        """An experiment is looked at for one of its runs after the other, in a lane of its own: a run is over, whatever
        becomes of that."""
        if is_over:
            self._lanes.put(run.experiment_id, lambda: self._follow_up(run))
        return is_over

    def _follow_up(self, run: Run) -> None:
        try:
            self._note_change(review(self._context, run.experiment_id, run.plan.cell_key))
            self._troubles.well(run.experiment_id)
        except Exception as error:
            note(self._troubles, run.experiment_id, f"after run {run.id}", error)

    def _review(self, experiment_id: str) -> bool:
        """An experiment of which nobody can tell what it still needs is over, and failed, after some tries."""
        try:
            return review(self._context, experiment_id)
        except Exception as error:
            trouble = self._troubles.of(experiment_id)
            if trouble is None or not trouble.ours or trouble.count < OWN_TRIES:
                raise
            log.error("%s: given up, nobody can tell what it still needs: %s", experiment_id, error)
            return self._context.store.end_experiment(experiment_id, ExperimentState.FAILED, self._context.clock.now())


def _lane_of(action: Action) -> str:
    match action:
        case Wait():
            return QUEUE
        case Review(experiment_id):
            return experiment_id
        case End(attempt_id):
            return attempt_id
        case TakeOver(stray):
            return stray.attempt.id
    return action.run.id


def _launch(context: Context, launch: Launch, attempt_id: str) -> Attempt | None:
    """Hold its devices and make the attempt durable; its agents are to be told then."""
    run = launch.run
    try:
        placement = context.cluster.hold(attempt_id, launch.placement)
    except DevicesTaken as error:
        context.store.set_waiting(run.plan.needs.key, str(error))
        return None
    attempt = Attempt(
        id=attempt_id,
        run_id=run.id,
        number=len(run.attempts) + 1,
        token=new_token(),
        placement=placement,
        created_at=context.clock.now(),
        fence_s=max(context.cluster.fence_s(node) for node in placement.nodes),
        lent_by=launch.lent_by,
    )
    # If not, what is held for it is given back in the next pass.
    return attempt if context.store.begin_attempt(run.id, attempt) else None


def _job(context: Context, run: Run, attempt: Attempt) -> Mapping[str, Any]:
    """The job of the attempt; the same again when it is told again."""
    taking_part = attempt.placement.nodes
    ports = {node: context.cluster.reserve(node, attempt.id) for node in taking_part} if len(taking_part) > 1 else None
    arithmetic = ARITHMETIC.get(run.plan.precision, run.plan.precision)
    calibrated = context.store.calibrated(device_keys(attempt.placement), arithmetic)
    expected = expected_of(context, run, attempt)
    job = build_job(run, attempt, context.catalog, context.cluster.nodes(), ports, calibrated, expected)
    try:
        layers = replayed(context, run.plan)
    except NotReplayable as error:  # its run was removed
        raise JobRefused(str(error)) from None
    return job if layers is None else job | {"model": job["model"] | {"replayed": layers}}


def _give_up(context: Context, run: Run, failure: Failure, analysed: bool = False) -> bool:
    """End the attempt with ``failure``, and the run with it if it is worth no other; whether it was done."""
    store, now = context.store, context.clock.now()
    if run.state is RunState.QUEUED:
        return store.move_run(run.id, RunState.QUEUED, RunState.FAILED, at=now, failure=failure)
    assert run.attempt is not None
    if run.state is RunState.PLACING:  # a start that comes late is then refused
        reason = FailureKind.CANCELLED if failure.kind is FailureKind.INTERNAL_ERROR else failure.kind
        _stop_all(context, run.attempt.id, run.attempt.placement.nodes, reason)
    if run.state is not RunState.COLLECTING and not store.move_run(run.id, run.state, RunState.COLLECTING, at=now):
        return False
    return conclude(context, run, failure, analysed=analysed)


def _stop(context: Context, run: Run, nodes: Sequence[str], reason: FailureKind) -> bool:
    assert run.attempt is not None
    if run.attempt.stop_requested is None:
        context.store.request_stop(run.attempt.id, reason)
    if trouble := _stop_all(context, run.attempt.id, nodes, reason):
        raise trouble
    return False


def _stop_all(context: Context, attempt_id: str, nodes: Sequence[str], reason: FailureKind) -> NodeFailed | None:
    """Tell all of ``nodes``, whichever of them fails; the last error that an agent answered with. That one does not
    answer is no reason for the run to rest: it is told in each pass, until it answers or is taken for dead."""
    trouble = None
    for node in nodes:
        try:
            context.cluster.stop(node, attempt_id, reason)
        except NodeFailed as error:
            trouble = error
        except NodeUnreachable as error:
            log.info("%s is to end: %s", attempt_id, error)
    return trouble


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
