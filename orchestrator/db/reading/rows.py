"""Between rows and the types of the domain. JSON is written here and read here."""

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from enum import Enum
from functools import lru_cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json
from sqlalchemy import Row, Table

from orchestrator.db.tables.schema import attempt, experiment, run
from orchestrator.domain.asked.placement import Placement
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.asked.spec import ExperimentSpec
from orchestrator.domain.runs.run import Attempt, Experiment, ExperimentState, Origin, Run, RunState
from orchestrator.domain.value.failure import Failure
from orchestrator.domain.value.measurement import Analysis
from orchestrator.domain.words.errors import Damaged, DamagedRow
from orchestrator.domain.words.plain import reader_of
from orchestrator.domain.words.untrusted import PRINTED, is_time, mended, problems_in, visible
from workers.trainer import protocol

AnyRow = Row[*tuple[Any, ...]]
Made = TypeVar("Made")

LARGEST = 2**62  # what both databases take as an integer


def to_text(value: Any) -> str:
    """``value`` as ``protocol.to_json`` writes it, in a fifth of the time."""
    try:
        return to_json(value, ensure_ascii=True, inf_nan_mode="strings").decode()
    except ValueError:  # half a pair of surrogates, or too deep for it
        return str(protocol.to_json(value))


def searchable(text: str) -> str:
    """``text`` in ASCII, escaped as JSON does: what labels are found by. Plain ASCII stays as it is."""
    return json.dumps(text)[1:-1]


def bounded(count: int) -> int:
    """``count`` within what the databases take: numbers of a request may be any."""
    return max(-LARGEST, min(LARGEST, count))


def json_or_none(value: Any) -> str | None:
    return None if value is None else to_text(value)


# What Python, pydantic and our own checks raise at stored values that no version of tbd should have stored.
_BROKEN = (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError)

_PLAN = TypeAdapter(Plan)
_FINGERPRINT = TypeAdapter(dict[str, Any])


def read(table: str, identifier: Any, experiment_id: Any, make: Callable[[], Made]) -> Made:
    """Make something of a row of ``table``.

    Raises:
        DamagedRow: it cannot be made; ``identifier`` and ``experiment_id`` say which it is.
    """
    try:
        return make()
    except _BROKEN as error:
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error) or type(error).__name__
        if isinstance(error, ValidationError):
            reason = f"{'.'.join(map(str, error.errors()[0]['loc']))}: {reason}"
        of = None if experiment_id is None else visible(str(experiment_id))
        one = Damaged(table, visible(str(identifier)), of, visible(reason[:300]))
        raise DamagedRow(one) from None


def sorted_out(found: Iterable[AnyRow], make: Callable[[AnyRow], Made]) -> tuple[list[Made], list[Damaged]]:
    """(what ``make`` makes of each row, the rows that are damaged): one bad row spoils nothing beside it."""
    made, damaged = [], []
    for row in found:
        try:
            made.append(make(row))
        except DamagedRow as error:
            damaged.append(error.damaged)
    return made, damaged


def loaded(text: str) -> Any:
    """The JSON that stands in ``text``; with U+FFFD for what is no Unicode in what a program printed.

    Raises:
        ValueError: it is none, or holds what is no Unicode elsewhere.
    """
    value = json.loads(text)
    if "\\ud" not in text:
        return value
    for problem in problems_in(value, printed=PRINTED, control=True):
        raise ValueError(f"{problem.pointer}: {problem.message}")
    return mended(value)


def time_of(seconds: Any) -> float:
    """``seconds`` since the epoch.

    Raises:
        ValueError: no calendar has that time.
    """
    if not is_time(seconds):
        raise ValueError(f"{seconds!r} is no time from 1970 to 9999")
    return float(seconds)


def maybe_time(seconds: Any) -> float | None:
    return None if seconds is None else time_of(seconds)


# Many runs share a plan, experiments a spec, and both are read over and over: making them from JSON is what costs.
@lru_cache(maxsize=8192)
def _plan(text: str) -> Plan:
    plan = Plan.from_json(loaded(text))
    _PLAN.validate_python(vars(plan))
    return plan


@lru_cache(maxsize=2048)
def _spec(text: str) -> ExperimentSpec:
    return ExperimentSpec.model_validate(loaded(text))


def plan_of(text: str) -> Plan:
    return _plan(text)


def spec_of(text: str) -> ExperimentSpec:
    return _spec(text)


def placement_of(text: str) -> Placement:
    return _placement(text)


def nodes_of(text: Any) -> tuple[str, ...]:
    """The nodes that the text of a placement names, also of one that cannot be read."""
    return tuple(re.findall(r'"node":\s*"([^"\\]+)"', str(text)))


@lru_cache(maxsize=1024)
def _placement(text: str) -> Placement:
    return Placement.from_json(loaded(text))


def values_of(table: Table, thing: object, **written: Any) -> tuple[Any, ...]:
    """The row of ``thing`` for an ``Insert`` of all columns: those of ``written``, and of the others what ``thing``
    calls by the same name."""
    found = (written[name] if name in written else getattr(thing, name) for name in table.columns.keys())  # noqa: SIM118
    return tuple(value.value if isinstance(value, Enum) else value for value in found)


def made_of(kind: type[Made], row: AnyRow, /, **read: Any) -> Made:
    """The dataclass ``kind`` of a row: its fields of ``read``, and the others from the columns of the same names.

    Raises:
        ValueError: a field is not what it should be; a time is none.
    """
    values = {**row._mapping, **read}
    times = {name: maybe_time(value) for name, value in values.items() if name == "at" or name.endswith("_at")}
    made: Made = reader_of(kind).validate_python(values | times)
    return made


def experiment_row(one: Experiment) -> tuple[Any, ...]:
    """The values of ``experiments.INSERT``."""
    spec, facts = to_text(one.spec.to_json()), to_text(dict(one.facts))
    return values_of(experiment, one, name=one.spec.name, spec=spec, facts=facts)


def experiment_of(row: AnyRow, run_counts: Mapping[RunState, int], origin: Origin | None = None) -> Experiment:
    """Raises ``DamagedRow``."""
    return read("experiment", row.id, row.id, lambda: _experiment(row, run_counts, origin))


def _experiment(row: AnyRow, run_counts: Mapping[RunState, int], origin: Origin | None) -> Experiment:
    return Experiment(
        id=row.id,
        owner=row.owner,
        spec=_spec(row.spec),
        facts=_FINGERPRINT.validate_python(loaded(row.facts)),
        state=ExperimentState(row.state),
        created_at=time_of(row.created_at),
        ended_at=maybe_time(row.ended_at),
        cancel_requested=row.cancel_requested,
        paused=row.paused,
        deadline_at=maybe_time(row.deadline_at),
        run_counts=run_counts,
        origin=origin,
    )


def run_row(one: Run) -> tuple[Any, ...]:
    """The values of ``runs.INSERT``."""
    plan = one.plan
    return values_of(
        run,
        one,
        plan=to_text(plan.to_json()),
        plan_key=plan.key,
        cell_key=plan.cell_key,
        model=plan.model,
        framework=plan.framework,
        needs=plan.needs.key,
        failure=failure_text(one.failure),
    )


def run_of(row: AnyRow, attempts: Iterable[AnyRow], result: AnyRow | None = None, waiting: str | None = None) -> Run:
    """A run of its own row, those of its attempts and that of its result. Raises ``DamagedRow``."""
    return read("run", row.id, row.experiment_id, lambda: _run(row, attempts, result, waiting))


def _run(row: AnyRow, attempts: Iterable[AnyRow], result: AnyRow | None, waiting: str | None) -> Run:
    one = Run(
        id=row.id,
        experiment_id=row.experiment_id,
        plan=_plan(row.plan),
        state=RunState(row.state),
        created_at=time_of(row.created_at),
        priority=row.priority,
        attempts=tuple(attempt_of(each) for each in attempts),
        started_at=maybe_time(row.started_at),
        ended_at=maybe_time(row.ended_at),
        cancel_requested=row.cancel_requested,
        paused=row.paused,
        waiting=waiting,
        failure=failure_of(row.failure),
        owner=row.owner,
    )
    if result is None:
        return one
    fingerprint = fingerprint_of(result.fingerprint) if result.fingerprint else None
    return replace(one, analysis=analysis_of(result.analysis), fingerprint=fingerprint)


def fingerprint_of(text: str) -> dict[str, Any]:
    return _FINGERPRINT.validate_python(loaded(text))


def attempt_row(one: Attempt) -> tuple[Any, ...]:
    """The values of ``runs.INSERT_ATTEMPT``."""
    return values_of(attempt, one, placement=to_text(one.placement.to_json()), failure=failure_text(one.failure))


def attempt_of(row: AnyRow) -> Attempt:
    return made_of(Attempt, row, placement=_placement(row.placement), failure=failure_of(row.failure))


def failure_text(failure: Failure | None) -> str | None:
    return None if failure is None else to_text(failure.to_json())


def failure_of(text: str | None) -> Failure | None:
    return None if text is None else Failure.from_json(loaded(text))


def analysis_of(text: str | None) -> Analysis | None:
    return None if text is None else Analysis.from_json(loaded(text))


def judged_run_of(row: AnyRow, attempts: Iterable[AnyRow]) -> Run:
    """A run with the verdict of the ``analysis`` in its row. Raises ``DamagedRow``."""
    made = run_of(row, attempts)
    return read("run", row.id, row.experiment_id, lambda: replace(made, analysis=verdict_of(row.analysis)))


def verdict_of(text: str | None) -> Analysis | None:
    """Of the analysis its validity and the throughput: all that decides whether a cell needs further runs."""
    whole = analysis_of(text)
    if whole is None:
        return None
    rate = whole.measurement("throughput")
    return Analysis(whole.validity, measurements=(rate,) if rate else (), code_version=whole.code_version)


def throughput_of(analysis: Analysis | None) -> float | None:
    """For the column of that name: None where there is no finite number."""
    rate = analysis.measurement("throughput") if analysis else None
    return rate.value if rate and rate.value is not None and math.isfinite(rate.value) else None
