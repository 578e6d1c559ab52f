"""Deciding: from a ``Situation`` to the actions that it asks for. Pure: no store, no clock."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from orchestrator.domain.around.device_health import crashed_on
from orchestrator.domain.asked.placement import NEVER, Held, Kept, NotNow, Offer, Placement, offer, place, without
from orchestrator.domain.asked.plan import Needs
from orchestrator.domain.runs.run import HOLDS_DEVICES, Attempt, Run, RunState
from orchestrator.domain.value.failure import Failure, FailureKind
from orchestrator.domain.value.health import DeviceState
from orchestrator.services.reconcile.situation import OpenAttempt, Situation, Stray, Word
from orchestrator.services.reconcile.turns import Turns


@dataclass(frozen=True)
class Launch:
    """``lent_by``: the run for which something of the placement is kept."""

    run: Run
    placement: Placement
    lent_by: str | None = None


@dataclass(frozen=True)
class Wait:
    """The queued runs that ask for ``needs`` cannot be placed now, and a person should see why."""

    needs: Needs
    reason: str


@dataclass(frozen=True)
class Tell:
    """Tell these nodes (again) to start the attempt."""

    run: Run
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Move:
    run: Run
    to: RunState


@dataclass(frozen=True)
class Stop:
    run: Run
    nodes: tuple[str, ...]
    reason: FailureKind


@dataclass(frozen=True)
class End:
    """End the processes of an attempt whose run cannot be read."""

    attempt_id: str
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class TakeOver:
    """End an attempt that is over for the database; once it is, store the rest of its log and have it removed."""

    stray: Stray


@dataclass(frozen=True)
class Fetch:
    run: Run
    node: str


@dataclass(frozen=True)
class Conclude:
    """All logs that can be had are stored; ``lost`` are the nodes whose log is not complete."""

    run: Run
    lost: tuple[str, ...]


@dataclass(frozen=True)
class Review:
    """See whether an experiment is over."""

    experiment_id: str


@dataclass(frozen=True)
class GiveUp:
    """Nothing more can be done for the run, and none of its processes lives: end the attempt with ``failure``."""

    run: Run
    failure: Failure


Action = Launch | Wait | Tell | Move | Stop | End | TakeOver | Fetch | Conclude | GiveUp | Review


def decide(situation: Situation) -> list[Action]:
    """What to do now. Pure: the same situation gives the same actions, in the order in which they are to be applied."""
    actions: list[Action] = []
    for run in situation.runs:
        if run.id in situation.left_alone:
            continue
        if run.id in situation.hopeless:
            actions += _decide_hopeless(run, situation.hopeless[run.id], situation)
        elif run.state is RunState.QUEUED and run.cancel_requested:
            actions.append(Move(run, RunState.CANCELLED))
        elif run.state in HOLDS_DEVICES and run.attempt:
            actions += _decide_open(run, run.attempt, situation.attempts[run.attempt.id])
    actions += [
        End(one.attempt_id, one.nodes)
        for one in situation.damaged
        if one.cancel_requested and one.nodes and one.attempt_id not in situation.left_alone
    ]
    actions += [TakeOver(stray) for stray in situation.strays if stray.attempt.id not in situation.left_alone]
    actions += _decide_queue(situation, _held(situation))
    idle = [one for one in situation.idle_experiments if one not in situation.left_alone]
    return actions + [Review(experiment_id) for experiment_id in idle]


def all_kept(situation: Situation) -> Mapping[str, Kept]:
    """Queued run -> what is kept for it, once what can be placed is."""
    held = _held(situation)
    for _ in _decide_queue(situation, held):
        pass
    return held.all_kept


def _held(situation: Situation) -> Held:
    unread = {node for hold in situation.damaged for node in hold.nodes}
    held = Held(closed=(*unread, *(stray.node for stray in situation.strays if stray.lives)))
    for run in situation.runs:
        if run.state in HOLDS_DEVICES and run.attempt:
            attempt, is_guest = run.attempt, run.attempt.lent_by is not None
            held.add(attempt.placement, run.plan.exclusive, attempt.created_at, run_id=run.id, is_guest=is_guest)
    for launch in situation.launching:
        held.add(launch.placement, launch.exclusive, is_guest=launch.is_guest)
    return held


def _decide_queue(situation: Situation, held: Held) -> Iterator[Action]:
    """Launch what can be placed, by turns. What a run waits for is kept for it against those that come after it. Runs
    that ask for the same fare alike: once one of them has to wait all that come after it have to, but for guests of the
    run that something is kept for. GPUs that are suspect, and for a run those on which it crashed, are passed over
    where the others suffice."""
    offers: dict[Needs, Offer] = {}
    refused: dict[Needs, float] = {}  # and the shortest time for which even a guest of that kind had nothing
    suspects = {device for node in situation.nodes for device in node.of_state(DeviceState.SUSPECT)}
    passed = {*situation.left_alone, *situation.hopeless}
    queued = [run for run in situation.runs if run.state is RunState.QUEUED and not run.cancel_requested]
    turns = Turns([run for run in queued if run.id not in passed], situation.uses)
    for run in turns:
        needs = run.plan.needs
        ends_s = situation.ends_s(run) if held.longest_lent_s else NEVER
        may_be_guest = ends_s < min(held.longest_lent_s, refused.get(needs, NEVER))
        if needs in refused and not may_be_guest:
            continue
        if needs not in offers:
            offers[needs] = without(offer(needs, situation.nodes, situation.slow), suspects)
        mine = without(offers[needs], crashed_on(run))
        turn = (run.plan.repetition, len(run.attempts))
        answer = why_not = place(mine, held, *turn) if needs not in refused else None
        if may_be_guest and not isinstance(answer, Placement):
            answer = place(mine, held, *turn, ends_s)
        if isinstance(answer, Placement):
            lent_by = held.lender(answer)
            held.add(answer, needs.exclusive, run_id=run.id, is_guest=lent_by is not None)
            turns.begun(run)
            yield Launch(run, answer, lent_by)
        elif isinstance(why_not, NotNow):
            refused[needs] = NEVER
            held.keep(mine, run.id)
            if run.id in held.all_kept:
                held.lend(run.id, situation.begins_s(held.all_kept[run.id]))
            if why_not.reason != run.waiting:
                yield Wait(needs, why_not.reason)
        else:
            refused[needs] = ends_s


def _decide_hopeless(run: Run, failure: Failure, situation: Situation) -> Iterator[Action]:
    """Its processes are ended first; an agent that does not answer is waited for."""
    seen = situation.attempts[run.attempt.id] if run.attempt and run.state is not RunState.QUEUED else None
    words = seen.words if seen else {}
    if alive := tuple(node for node, word in words.items() if word is Word.RUNNING):
        yield Stop(run, alive, FailureKind.CANCELLED)
    elif Word.SILENT not in words.values():
        yield GiveUp(run, failure)


def _decide_open(run: Run, attempt: Attempt, seen: OpenAttempt) -> Iterator[Action]:
    nodes = attempt.placement.nodes
    alive = tuple(node for node in nodes if not seen.over(node))
    reason = _why_stop(run, attempt, seen)
    if reason and alive:
        yield Stop(run, alive, reason)
    yield from (Fetch(run, node) for node in nodes if node not in seen.stored and seen.words[node] in _SPEAKS)
    if run.state is RunState.PLACING:
        yield from _decide_placing(run, seen, reason)
    elif run.state is RunState.RUNNING and not alive:
        yield Move(run, RunState.COLLECTING)
    elif run.state is RunState.COLLECTING and all(node in seen.stored or seen.gone(node) for node in nodes):
        yield Conclude(run, tuple(node for node in nodes if node not in seen.stored))


_SPEAKS = (Word.RUNNING, Word.ENDED)


def _decide_placing(run: Run, seen: OpenAttempt, reason: FailureKind | None) -> Iterator[Action]:
    untold = tuple(node for node, word in seen.words.items() if word is Word.UNKNOWN and node not in seen.stored)
    if reason:
        # A stop also reaches an agent that was never told to start: it then refuses a start that comes late.
        if untold:
            yield Stop(run, untold, reason)
        if all(seen.over(node) for node in seen.words):
            yield Move(run, RunState.COLLECTING)
    elif untold:
        yield Tell(run, untold)
    elif Word.SILENT not in seen.words.values():
        yield Move(run, RunState.RUNNING)


def _why_stop(run: Run, attempt: Attempt, seen: OpenAttempt) -> FailureKind | None:
    """Why the rest of the attempt is to be ended: as it was asked for, or because a node of the gang is lost to it. The
    failure that a node's log ended with explains the run; that the others were stopped for it does not."""
    if attempt.stop_requested:
        return FailureKind(attempt.stop_requested)
    if run.cancel_requested:
        return FailureKind.CANCELLED
    if any(word is Word.DEAD and node not in seen.stored for node, word in seen.words.items()):
        return FailureKind.NODE_LOST
    if seen.failed:
        return FailureKind.NODE_LOST
    if run.state is not RunState.PLACING and any(seen.gone(node) for node in seen.words):
        return FailureKind.NODE_LOST
    return None
