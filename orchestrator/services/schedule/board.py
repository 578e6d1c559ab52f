"""The nightly board: what became of each cell of a schedule, night by night.

A night is a time of the schedule (``domain.schedule.Fire``), also one that somebody fired by hand. Each cell of it has
a colour and the reason for it (docs/read_results/nightly.md):

green     it has a number that is not told slower than those of the last nights (``analysis.nightly``)
red       it is told slower, or runs of it failed
missing   no night: its time was missed, skipped, refused or waits; or the experiment was cancelled or removed
invalid   it ran, and trained wrongly or has no number
running   its experiment is not over yet
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from orchestrator.analysis.cell.row import RATE, row_of_cell
from orchestrator.analysis.history.nightly import LOOK_BACK, Night, Rates, judge
from orchestrator.domain.around.schedule import GRACE_S, SCHEDULE_PREFIX, Fire, FireState, Schedule, judged
from orchestrator.domain.asked.fingerprint import workload_of
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.runs.basis import Basis, of_plan
from orchestrator.domain.runs.filters import CellFilter, FireFilter, ScheduleFilter
from orchestrator.domain.runs.row import Row, place_of, why_not_sound
from orchestrator.domain.runs.run import TERMINAL, ExperimentState, Run, RunState
from orchestrator.domain.runs.stored import Page, StoredCell
from orchestrator.domain.value.measurement import Grade, Measurement
from orchestrator.domain.words.errors import NotFound
from orchestrator.services.context import Context
from orchestrator.services.result import results
from orchestrator.services.result.comparison import Change, changes_between, difference
from orchestrator.services.result.largest_batch import was_given_up
from orchestrator.services.schedule.schedules import Rules

NIGHTS = 14  # that are shown where nothing else is asked for
MOST_NIGHTS = 60  # a judgement: of every one the runs are read
_UNSEEN = (
    "no server has looked after it yet: does one with schedules run (tbd serve), with a node that it can reach, and "
    "does it know the zone?"
)


class Colour(StrEnum):
    GREEN = "green"
    RED = "red"
    MISSING = "missing"
    INVALID = "invalid"
    RUNNING = "running"


@dataclass(frozen=True)
class Column:
    """One night. ``state``: of its fire, or ``unseen`` where no server has looked after its time yet; ``reason`` is why
    it submitted nothing. ``n_times``: it stands for so many times that were missed."""

    at: float
    state: str
    reason: str | None = None
    fire_id: str | None = None
    trigger: str | None = None
    n_times: int = 1
    experiment_id: str | None = None
    experiment_state: str | None = None


@dataclass(frozen=True)
class Field:
    """A cell in a night. ``code`` is the reason in a word; ``changes``: what differs from the newest of the nights that
    it was compared with, or from the last night on another machine."""

    colour: Colour
    code: str
    reason: str | None = None
    notes: tuple[str, ...] = ()
    throughput: Measurement | None = None
    difference: Measurement | None = None
    changes: Sequence[Change] = ()


@dataclass(frozen=True)
class Line:
    """A cell, as the last night planned it that had it, with its field of each night."""

    plan: Plan
    fields: Sequence[Field]


@dataclass(frozen=True)
class Board:
    """The last nights of a schedule, oldest first, and its cells."""

    schedule: Schedule
    nights: Sequence[Column]
    lines: Sequence[Line]


@dataclass(frozen=True)
class _Number:
    """What later nights are compared with."""

    night: Night
    fingerprint: Mapping[str, Any] | None


def boards(
    context: Context,
    schedule: str | None = None,
    owner: str | None = None,
    *,
    nights: int = NIGHTS,
    limit: int = 50,
    cursor: str | None = None,
) -> Page[Board]:
    """The boards of one schedule (its name or id), or of all, the newest schedule first.

    Raises:
        NotFound: there is no such schedule.
        InvalidRequest: the cursor is not one of ours.
    """
    if schedule is None:
        page = context.store.schedules(ScheduleFilter(owner), limit=limit, cursor=cursor)
    else:
        page = Page([_named(context, schedule)])
    made = [board(context, one, nights) for one in page.items]
    return Page(made, page.next_cursor, page.damaged)


def _named(context: Context, text: str) -> Schedule:
    if text.startswith(f"{SCHEDULE_PREFIX}_"):
        return context.store.schedule(text)
    page = context.store.schedules(ScheduleFilter(name=text), limit=1)
    if page.damaged:
        return context.store.schedule(page.damaged[0].id)  # which says what is wrong with it
    if not page.items:
        raise NotFound("schedule", text)
    return page.items[0]


def board(context: Context, schedule: Schedule, nights: int = NIGHTS) -> Board:
    """The last ``nights`` nights of a schedule. They are judged by ``LOOK_BACK`` more before them. What is over is
    judged once, and kept until something becomes of it."""
    columns = _columns(context, schedule, nights + LOOK_BACK)
    shown = columns[-nights:]
    going_on = [one for one in columns if one.experiment_state == ExperimentState.ACTIVE.value]
    over = [one for one in columns if one not in going_on]
    ids = [one.experiment_id for one in over if one.experiment_id is not None]
    known_by = (tuple(over), tuple(shown), tuple(sorted(context.store.last_changes(ids).items())))
    told = context.kept.of(("board", schedule.id), known_by, lambda: _nights_over(context, over, shown))
    found = {column: _cells_of(context, column) for column in going_on if column in shown}
    plans = {key: plan for key, (plan, _) in told.items()}
    plans |= {key: cell.runs[0].plan for cells in found.values() for key, cell in cells.items()}
    lines = []
    for key, plan in plans.items():
        past = told[key][1] if key in told else {}
        fields = [past.get(one) or _without_judgement(one, found.get(one, {}).get(key)) for one in shown]
        lines.append(Line(plan, [field for field in fields if field is not None]))
    return Board(schedule, shown, lines)


# Of a cell: the plan of the last night that had it, and its field in each night.
_Told = Mapping[Hashable, tuple[Plan, Mapping[Column, Field]]]


def _nights_over(context: Context, over: Sequence[Column], shown: Sequence[Column]) -> _Told:
    """The cells of nights that are over, and how they are judged in those that are shown."""
    found = [_cells_of(context, one) for one in over]
    places = [place for place, column in enumerate(over) if column in shown]
    told = {}
    for key in dict.fromkeys(key for place in places for key in found[place]):
        cells = [one.get(key) for one in found]
        fields = _judged(over, cells)
        newest = next(cell for cell in reversed(cells) if cell is not None)
        told[key] = (newest.runs[0].plan, {over[place]: fields[place] for place in places})
    return told


def _columns(context: Context, schedule: Schedule, most: int) -> list[Column]:
    """The newest times, oldest first: those on record, and those that nobody has looked after."""
    fires = list(context.store.fires(FireFilter(schedule.id), limit=most).items)[::-1]
    columns = [_column(fire) for fire in fires] + _unseen(schedule, context.clock.now())
    return sorted(columns, key=lambda column: column.at)[-most:]


def _column(fire: Fire) -> Column:
    return Column(
        at=fire.at,
        state=fire.state.value,
        reason=fire.reason,
        fire_id=fire.id,
        trigger=fire.trigger.value,
        n_times=fire.n_times,
        experiment_id=fire.experiment_id,
        experiment_state=fire.experiment_state,
    )


def _unseen(schedule: Schedule, now: float) -> list[Column]:
    """Times that are over and have no record: a server that is down for nights writes none until it is back."""
    try:
        rules = Rules.of(schedule)
    except ValueError:  # nobody can tell which times they were; ``tbd schedule show`` says why
        return []
    due = judged(replace(schedule, paused=False), rules.cron, rules.zone, now - GRACE_S)
    return [Column(one.at, "unseen", _UNSEEN, n_times=one.n_times) for one in due]


def _cells_of(context: Context, night: Column) -> dict[Hashable, StoredCell]:
    """The cells of a night's experiment, by what is the same every night."""
    if night.experiment_id is None or night.experiment_state is None:
        return {}
    found: dict[Hashable, StoredCell] = {}
    cursor: str | None = None
    while True:
        page = context.store.cells(CellFilter(experiment_id=night.experiment_id), limit=results.PART, cursor=cursor)
        found |= {_key(cell): cell for cell in page.items if not was_given_up(cell.experiment, cell.runs)}
        cursor = page.next_cursor
        if cursor is None:
            return found


def _key(cell: StoredCell) -> Hashable:
    """The workload, and where it may run. An interpreter belongs to it only where the spec compares several: else it
    is what changed from one night to the next."""
    plan = cell.runs[0].plan
    several = len(cell.experiment.spec.interpreter) > 1
    where = (plan.gpu_model, plan.node_names, plan.interpreter if several else None)
    return (repr(sorted(workload_of(plan).items())), *where)


def _judged(columns: Sequence[Column], cells: Sequence[StoredCell | None]) -> list[Field]:
    """The fields of one cell, each judged by those before it."""
    before: list[_Number | None] = []
    fields = []
    for column, cell in zip(columns, cells, strict=True):
        field = _without_judgement(column, cell)
        number = None
        if field is None and cell is not None:
            field, number = _with_number(row_of_cell(cell), before)
        assert field is not None
        fields.append(field)
        before.append(number)
    return fields


def _without_judgement(column: Column, cell: StoredCell | None) -> Field | None:
    """The field of a night that has no cell to be judged; None where there is one."""
    if column.state != FireState.SUBMITTED.value:
        return Field(Colour.MISSING, column.state, column.reason)
    if column.experiment_state is None:
        return Field(Colour.MISSING, "removed", f"{column.experiment_id} was removed (tbd rm)")
    if cell is None:
        return Field(Colour.MISSING, "no_such_cell", "the spec of that night had no such cell")
    if column.experiment_state == ExperimentState.ACTIVE.value:
        ended = sum(1 for run in cell.runs if run.state in TERMINAL)
        paused = "; it is paused (tbd resume)" if any(run.paused for run in cell.runs) else ""
        return Field(Colour.RUNNING, "running", f"{ended} of {len(cell.runs)} runs have ended{paused}")
    if any(run.state is RunState.CANCELLED for run in cell.runs):
        cancelled = sum(1 for run in cell.runs if run.state is RunState.CANCELLED)
        return Field(Colour.MISSING, "cancelled", f"{cancelled} of {len(cell.runs)} runs were cancelled")
    return None


def _with_number(row: Row, before: Sequence[_Number | None]) -> tuple[Field, _Number | None]:
    """(the field of a cell whose runs have all ended, what it is for the nights after it)."""
    throughput = row.measurements.get(RATE)
    failed = [run for run in row.runs if run.state is RunState.FAILED]
    broken = [run for run in row.runs if run.grade is Grade.BROKEN]
    tonight = None if throughput is None else _night_of(row)
    if failed:
        return Field(Colour.RED, "failed", _why(failed, row.runs, "failed"), throughput=throughput), tonight
    if broken:
        return Field(Colour.INVALID, "broken", _why(broken, row.runs, "broken"), throughput=throughput), tonight
    if tonight is None:
        return Field(Colour.INVALID, "no_number", row.reasons.get(RATE)), None
    verdict = judge(tonight.night, [number.night if number else None for number in before])
    told = None if verdict.found is None else difference(verdict.found)
    earlier = next((number for number in reversed(before) if number is not None), None)
    if verdict.compared_with:
        earlier = before[verdict.compared_with[-1]]
    changes = changes_between(earlier.fingerprint, tonight.fingerprint) if earlier else []
    if verdict.outcome == "slower":
        return Field(Colour.RED, "slower", verdict.text, (), throughput, told, changes), None
    return Field(Colour.GREEN, verdict.outcome, None, (verdict.text,), throughput, told, changes), tonight


def _night_of(row: Row) -> _Number:
    planned = of_plan(row.runs, row.planned)
    same = [run.id for run in planned.runs] == [run.id for run in row.basis.runs]
    own = _rates(row, row.basis)
    night = Night(
        sound=own if row.basis.grade is Grade.SOUND else None,
        planned=own if same else _rates(row, planned),
        setting=_setting(row.basis.runs),
        first_stage=row.first_stage,
    )
    return _Number(night, row.fingerprint)


def _rates(row: Row, basis: Basis) -> Rates:
    known = row.rates_of(basis)
    return Rates(tuple(value for _, value in known), tuple(place_of(run) for run, _ in known))


def _setting(runs: Iterable[Run]) -> Hashable:
    """The machines of the runs of a night, and what devices of these they had."""
    prints = [run.fingerprint for run in runs if run.fingerprint]
    return frozenset((one.get("rig_key"), one.get("workload_key")) for one in prints)


def _why(some: Sequence[Run], of: Sequence[Run], word: str) -> str:
    """How many runs, and each different reason once."""
    reasons = {reason.code: reason.text for run in some for reason in why_not_sound(run)}
    told = "; ".join(f"{code}: {text}".strip(": \n") for code, text in reasons.items())
    return f"{len(some)} of {len(of)} runs {'are ' if word == 'broken' else ''}{word}: {told}"
