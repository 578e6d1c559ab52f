"""The promises P1 to P7 of docs/build/states.md, held against what is on record and what really happened.

All times are seconds of one clock, which is nobody's: of the simulation, or of the only host.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import NamedTuple

from orchestrator.domain.runs.run import TERMINAL, Run, RunState
from orchestrator.domain.runs.stored import Change

# promise -> what its breaches are called in the last line of `make faults`
FIGURES = {
    "P1": "lost",
    "P2": "unrecorded_starts",
    "P3": "second_results",
    "P4": "unflagged_overlaps",
    "P5": "changed_terminals",
    "P6": "late",
    "P7": "hasty",
}


class Breach(NamedTuple):
    promise: str
    what: str


class Training(NamedTuple):
    """Processes of an attempt on a node, as they noted it themselves: when they began, and when they last lived."""

    attempt_id: str
    node: str
    begun: float
    ended: float


class Span(NamedTuple):
    """When an attempt was on record, and when it was over there (infinite: it is not)."""

    begun: float
    over: float


@dataclass(frozen=True)
class Evidence:
    """
    Attributes:
        acknowledged: experiment -> the runs that it had when its submission was acknowledged.
        runs: of the store, by experiment; ``changes``: all of them, oldest first.
        spans: of the attempts on record.
        results: run -> the attempts whose results are stored.
        told: run -> terminal states that somebody was shown.
        due: run -> when it has to be over, its bound included; ``over``: run -> when it was.
        contacts: node -> when the server heard from it, ascending.
        removed: (attempt, node) -> entries of a log that its agent has deleted; ``kept``: how many of it are stored.
    """

    acknowledged: Mapping[str, Collection[str]]
    runs: Mapping[str, Sequence[Run]]
    changes: Sequence[Change]
    trainings: Sequence[Training]
    spans: Mapping[str, Span]
    fence_s: float
    results: Mapping[str, Collection[str]] = field(default_factory=dict)
    told: Mapping[str, Collection[RunState]] = field(default_factory=dict)
    due: Mapping[str, float] = field(default_factory=dict)
    over: Mapping[str, float] = field(default_factory=dict)
    contacts: Mapping[str, Sequence[float]] = field(default_factory=dict)
    removed: Mapping[tuple[str, str], int] = field(default_factory=dict)
    kept: Mapping[tuple[str, str], int] = field(default_factory=dict)

    @property
    def all_runs(self) -> list[Run]:
        return [run for runs in self.runs.values() for run in runs]


def breaches(evidence: Evidence) -> list[Breach]:
    """What of the promises was not kept."""
    return [
        *(Breach("P1", what) for what in _lost(evidence)),
        *(Breach("P2", what) for what in _unrecorded(evidence)),
        *(Breach("P3", what) for what in _second_results(evidence)),
        *(Breach("P4", what) for what in _unflagged(evidence)),
        *(Breach("P5", what) for what in _changed(evidence)),
        *(Breach("P6", what) for what in _late(evidence)),
        *(Breach("P7", what) for what in _hasty(evidence)),
    ]


def _lost(evidence: Evidence) -> Iterator[str]:
    for experiment, acknowledged in evidence.acknowledged.items():
        there = {run.id for run in evidence.runs.get(experiment, ())}
        if experiment not in evidence.runs or not there.issuperset(acknowledged):
            yield f"{experiment} was acknowledged with {sorted(acknowledged)}; on record is {sorted(there)}"


def _unrecorded(evidence: Evidence) -> Iterator[str]:
    for one in evidence.trainings:
        span = evidence.spans.get(one.attempt_id)
        if span is None or one.begun < span.begun:
            yield f"{one} began before its attempt was on record ({span})"


def _second_results(evidence: Evidence) -> Iterator[str]:
    for run in evidence.all_runs:
        completed = [one for one in evidence.changes if one.run_id == run.id and _is_new(one, RunState.COMPLETED)]
        results = set(evidence.results.get(run.id, ()))
        latest = {run.attempt.id} if run.attempt else set()
        if len(completed) > 1 or len(results) > 1 or (run.state is RunState.COMPLETED and results != latest):
            yield f"{run.id} completed {len(completed)} times, with results of {sorted(results)}"
    for log, entries in evidence.removed.items():
        if evidence.kept.get(log, 0) < entries:
            yield f"of the log {log} {evidence.kept.get(log, 0)} of {entries} entries are kept"


def _is_new(change: Change, state: RunState) -> bool:
    """A change that tells of nothing but ``may_have_run_twice`` repeats the state."""
    return change.state == state and "may_have_run_twice" not in change.data


def _unflagged(evidence: Evidence) -> Iterator[str]:
    by_attempt: dict[str, list[Training]] = defaultdict(list)
    for one in evidence.trainings:
        by_attempt[one.attempt_id].append(one)
    for run in evidence.all_runs:
        trained = [by_attempt[attempt.id] for attempt in run.attempts]
        pairs = [pair for one, other in combinations(trained, 2) for pair in _overlaps(one, other)]
        if pairs and (run.usable or not run.may_have_run_twice):
            yield f"{run.id} ran twice and is not marked: {pairs[0]}"


def _overlaps(one: Sequence[Training], other: Sequence[Training]) -> list[tuple[Training, Training]]:
    return [(a, b) for a in one for b in other if a.begun < b.ended and b.begun < a.ended]


def _changed(evidence: Evidence) -> Iterator[str]:
    for run in evidence.all_runs:
        states = [one.state for one in evidence.changes if one.run_id == run.id]
        left = [(old, new) for old, new in pairwise([*states, run.state]) if old in TERMINAL and new != old]
        if left or set(evidence.told.get(run.id, ())) - {run.state}:
            yield f"{run.id} is {run.state}; it was {states}, and was said to be {evidence.told.get(run.id, ())}"


def _late(evidence: Evidence) -> Iterator[str]:
    for run in evidence.all_runs:
        over = evidence.over.get(run.id, math.inf) if run.state in TERMINAL else math.inf
        if over > evidence.due.get(run.id, math.inf):
            yield f"{run.id} ({run.state}) was over at {over:.1f} and due at {evidence.due[run.id]:.1f}"


def _hasty(evidence: Evidence) -> Iterator[str]:
    """An attempt was over while its processes lived, and its node had been heard of within the fence."""
    for one in evidence.trainings:
        over = evidence.spans[one.attempt_id].over if one.attempt_id in evidence.spans else math.inf
        heard = [at for at in evidence.contacts.get(one.node, ()) if at <= over]
        if one.begun < over < one.ended and heard and over - heard[-1] < evidence.fence_s:
            yield f"{one} was over at {over:.1f}, {over - heard[-1]:.1f} s after its node was heard of"
