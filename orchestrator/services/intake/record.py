"""Experiments as they are handed on: all of an experiment and its runs that no log tells, and every entry of the logs.

What was computed is not among it: whoever has a record computes it anew (``cli/passport/``). An attempt's token is
nobody else's, so that it is left out.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, TypeVar

from pydantic import ValidationError

from orchestrator.analysis.analyse import analyse
from orchestrator.domain.asked.fingerprint import fingerprint
from orchestrator.domain.asked.placement import Placement
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.asked.spec import ExperimentSpec
from orchestrator.domain.runs.log import Entry
from orchestrator.domain.runs.run import Attempt, Experiment, Run
from orchestrator.domain.value.failure import Failure
from orchestrator.domain.value.profile import KernelKinds
from orchestrator.domain.words.errors import Conflict
from orchestrator.domain.words.plain import plain, reader_of
from orchestrator.services.context import Context
from orchestrator.services.experiment import query

PART = 500  # entries that are read at once
Made = TypeVar("Made")
_OF_A_RUN = ("id", "experiment_id", "state", "created_at", "started_at", "ended_at", "cancel_requested", "priority")
_OF_AN_ATTEMPT = ("id", "run_id", "number", "created_at", "started_at", "ended_at", "stop_requested")
_OF_AN_EXPERIMENT = ("id", "owner", "facts", "state", "created_at", "ended_at", "cancel_requested", "paused")


class NoRecord(ValueError):  # noqa: N818 - reads as what happened
    """What is read is no record; the text says why."""


@dataclass(frozen=True)
class Recorded:
    """An experiment with its runs, as they were judged when the record was read."""

    experiment: Experiment
    runs: tuple[Run, ...]


def record(context: Context, experiment_id: str) -> Iterator[dict[str, Any]]:
    """First the experiment and its runs, then each entry of their logs with its ``attempt_id``: those of an attempt one
    after the other.

    Raises:
        NotFound: there is no such experiment.
        Conflict: its logs are not whole any more, so that nobody could compute its results anew.
    """
    experiment, runs = query.experiment(context, experiment_id), context.store.runs_of(experiment_id)
    for run in runs:
        if run.attempt and (why := run.attempt.why_thinned):
            raise Conflict(f"there is no record of {experiment_id} any more, as of {run.id}: {why}")
    return _lines(context, experiment, runs)


def _lines(context: Context, experiment: Experiment, runs: Iterable[Run]) -> Iterator[dict[str, Any]]:
    yield {
        "experiment": _told(experiment, _OF_AN_EXPERIMENT) | {"spec": experiment.spec.to_json()},
        "runs": [_run_told(run) for run in runs],
    }
    for attempt in (attempt for run in runs for attempt in run.attempts):
        for node in context.store.last_seqs(attempt.id):
            yield from _entries(context, attempt.id, node)


def _entries(context: Context, attempt_id: str, node: str) -> Iterator[dict[str, Any]]:
    after = 0
    while part := context.store.entries(attempt_id, node=node, after=after, limit=PART):
        yield from ({"attempt_id": attempt_id, "entry": entry} for entry in part)
        after = int(part[-1]["seq"])


def _told(thing: object, names: Iterable[str]) -> dict[str, Any]:
    return {name: plain(getattr(thing, name)) for name in names}


def _run_told(run: Run) -> dict[str, Any]:
    attempts = [
        _told(one, _OF_AN_ATTEMPT) | {"placement": one.placement.to_json(), "failure": plain(one.failure)}
        for one in run.attempts
    ]
    return _told(run, _OF_A_RUN) | {"plan": run.plan.to_json(), "failure": plain(run.failure), "attempts": attempts}


def recorded(lines: Iterable[Mapping[str, Any]], kinds: KernelKinds) -> Recorded:
    """The experiment of a record, its runs judged anew by their logs. One attempt's log is in memory at a time.

    Args:
        lines: what ``record`` gave.
        kinds: what kind of work each kernel does, by its name.

    Raises:
        NoRecord: it is none.
    """
    rest = iter(lines)
    try:
        first = next(rest)
        experiment = _experiment(first["experiment"])
        runs = [_run(one) for one in first["runs"]]
        last = {run.attempt.id: run for run in runs if run.attempt}
        judged = {run.id: run for run in runs}
        for attempt_id, entries in groupby(rest, key=lambda line: line["attempt_id"]):
            if run := last.pop(attempt_id, None):
                judged[run.id] = _judged(run, (one["entry"] for one in entries), kinds)
    except (StopIteration, KeyError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError) as error:
        raise NoRecord(_reason(error)) from None
    return Recorded(experiment, tuple(judged.values()))


def _judged(run: Run, entries: Iterable[Entry], kinds: KernelKinds) -> Run:
    logs: dict[str, list[dict[str, object]]] = {}
    for entry in entries:
        logs.setdefault(str(entry["node"]), []).append(dict(entry))
    analysis = analyse(logs, kinds)
    return replace(run, analysis=analysis, fingerprint=fingerprint(run.plan, analysis.circumstances))


def _experiment(data: Mapping[str, Any]) -> Experiment:
    made = {name: data[name] for name in _OF_AN_EXPERIMENT} | {"spec": ExperimentSpec.model_validate(data["spec"])}
    return _checked(Experiment, made)


def _run(data: Mapping[str, Any]) -> Run:
    plan = Plan.from_json(data["plan"])
    reader_of(Plan).validate_python(vars(plan))
    attempts = tuple(_attempt(one) for one in data["attempts"])
    made = {name: data[name] for name in _OF_A_RUN}
    return _checked(Run, made | {"plan": plan, "attempts": attempts, "failure": _failure(data["failure"])})


def _attempt(data: Mapping[str, Any]) -> Attempt:
    made = {name: data[name] for name in _OF_AN_ATTEMPT} | {"token": ""}
    placement = Placement.from_json(data["placement"])
    return _checked(Attempt, made | {"placement": placement, "failure": _failure(data["failure"])})


def _failure(data: Mapping[str, Any] | None) -> Failure | None:
    return None if data is None else Failure.from_json(data)


def _checked(kind: type[Made], fields: Mapping[str, Any]) -> Made:
    made: Made = reader_of(kind).validate_python(fields)
    return made


def _reason(error: BaseException) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    if isinstance(error, StopIteration):
        return "it is empty"
    return f"no {error}" if isinstance(error, KeyError) else str(error) or type(error).__name__
