"""The nightly board: what became of each cell of a schedule, night by night.

A night is a time of the schedule (``domain.schedule.Fire``), also one that somebody fired by hand. Each cell of it has
a colour and the reason for it (docs/read_results/nightly.md):

green     it has a number that does not look slower (``analysis.gate.suspects``)
amber     it looks slower: a candidate, which nobody has tried side by side, or that could not be confirmed
red       it is confirmed slower, or runs of it failed
missing   no night: its time was missed, skipped, refused or waits; or the experiment was cancelled or removed
invalid   it ran, and trained wrongly or has no number
running   its experiment is not over yet
"""

import hashlib
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean, variance

from orchestrator.analysis.cell.row import RATE, row_of_cell
from orchestrator.analysis.gate.candidates import LEAST_NIGHTS
from orchestrator.analysis.gate.sight import Sight, sights_of
from orchestrator.analysis.gate.suspects import Suspect, judged_points, moves_of
from orchestrator.analysis.history.baselines import Observation
from orchestrator.domain.around.alerts import Alert, AlertFilter, AlertState, Candidate
from orchestrator.domain.around.schedule import GRACE_S, SCHEDULE_PREFIX, Fire, FireState, Schedule, judged, told
from orchestrator.domain.asked.fingerprint import workload_of
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.runs.filters import CellFilter, FireFilter, ScheduleFilter
from orchestrator.domain.runs.row import Row, why_not_sound
from orchestrator.domain.runs.run import TERMINAL, ExperimentState, Run, RunState
from orchestrator.domain.runs.stored import Page, StoredCell
from orchestrator.domain.value.measurement import Grade, Measurement
from orchestrator.domain.words.errors import NotFound
from orchestrator.services.context import Context
from orchestrator.services.history.observed import Place, observed
from orchestrator.services.result import results
from orchestrator.services.result.comparison import Change
from orchestrator.services.result.largest_batch import was_given_up
from orchestrator.services.schedule.schedules import Rules

NIGHTS = 14  # that are shown where nothing else is asked for
MOST_NIGHTS = 60  # a judgement: of every one the runs are read
LOOK_BACK = 14  # further nights that are judged, so that the first of these has some before it
_UNSEEN = (
    "no server has looked after it yet: does one with schedules run (tbd serve), with a node that it can reach, and "
    "does it know the zone?"
)


class Colour(StrEnum):
    GREEN = "green"
    AMBER = "amber"
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
    """A cell in a night. ``code`` is the reason in a word; ``difference``: after / before - 1 of a candidate, as a
    ratio; ``changes``: what is not what it was in the last night before it."""

    colour: Colour
    code: str
    reason: str | None = None
    notes: tuple[str, ...] = ()
    throughput: Measurement | None = None
    difference: Measurement | None = None
    changes: Sequence[Change] = ()


@dataclass(frozen=True)
class Seen:
    """How small a drop is seen of a cell on a place, by the noise of its nights. ``run_deviation``: of the logarithm of
    a run within a night, None where no night has two; ``runs``: a night, the mean."""

    place: str
    sight: Sight
    run_deviation: float | None
    runs: float


@dataclass(frozen=True)
class Line:
    """A cell, as the last night planned it that had it, with its field of each night."""

    plan: Plan
    fields: Sequence[Field]
    seen: Sequence[Seen] = ()


@dataclass(frozen=True)
class Board:
    """The last nights of a schedule, oldest first, and its cells."""

    schedule: Schedule
    nights: Sequence[Column]
    lines: Sequence[Line]


@dataclass(frozen=True)
class Judged:
    """A cell over all nights that are over.

    Attributes:
        plan: as the last night planned it that had it.
        fields: of each night; ``present``: the nights whose spec had it.
        suspects: its candidates; their points are the numbers of these nights. ``places`` are those by their keys.
        looks: the candidate that an amber night is told of.
        cells: number of a night that had it -> (experiment, key of the cell in it).
        seen: what is seen on each place that has enough nights.
        run_s: how long a run takes, the mean in seconds; 0 where none is known.
        deviation: of the logarithm of a run's rate within a night; None where no night has two.
    """

    plan: Plan
    fields: Mapping[Column, Field]
    present: frozenset[Column]
    suspects: Sequence[Suspect]
    places: Mapping[str, Place]
    looks: Mapping[Column, Suspect]
    cells: Mapping[int, tuple[str, str]]
    seen: Sequence[Seen]
    run_s: float
    deviation: float | None


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
    """The last ``nights`` nights of a schedule."""
    columns = nights_of(context, schedule)
    shown = columns[-nights:]
    told = judged_cells(context, schedule, columns)
    going_on = [one for one in shown if one.experiment_state == ExperimentState.ACTIVE.value]
    found = {column: _cells_of(context, column) for column in going_on}
    plans = {key: one.plan for key, one in told.items() if not one.present.isdisjoint(shown)}
    plans |= {key: cell.runs[0].plan for cells in found.values() for key, cell in cells.items()}
    known = alerts_of(context, schedule)
    lines = []
    for key, plan in plans.items():
        past = _with_alerts(key, told[key], known) if key in told else {}
        fields = [past.get(one) or _without_judgement(one, found.get(one, {}).get(key)) for one in shown]
        seen = told[key].seen if key in told else ()
        lines.append(Line(plan, [field for field in fields if field is not None], seen))
    return Board(schedule, shown, lines)


def nights_of(context: Context, schedule: Schedule) -> list[Column]:
    """All nights that are looked at, oldest first: those that can be shown and those before them."""
    return _columns(context, schedule, MOST_NIGHTS + LOOK_BACK)


def alerts_of(context: Context, schedule: Schedule) -> Sequence[Alert]:
    """What the gate has taken note of, the newest first."""
    return context.store.alerts(AlertFilter(schedule_id=schedule.id), limit=200).items


def candidate_of(key: Hashable, judged: Judged, suspect: Suspect) -> Candidate:
    """A suspect of the cell of that key, as alerts have it."""
    plan, (experiment, cell) = judged.plan, judged.cells[suspect.begins.point]
    return Candidate(
        cell=hashlib.sha256(repr(key).encode()).hexdigest()[:16],
        label=f"{plan.model} {plan.framework} {plan.per_device_batch_size}",
        place=judged.places[suspect.place].name,
        at=suspect.begins.at,
        called_at=suspect.called.at,
        difference=suspect.difference,
        experiment_id=experiment,
        cell_key=cell,
    )


def _with_alerts(key: Hashable, judged: Judged, alerts: Sequence[Alert]) -> dict[Column, Field]:
    """The fields of a cell, the amber ones as the gate has tried them."""
    fields = dict(judged.fields)
    for column, suspect in judged.looks.items():
        candidate = candidate_of(key, judged, suspect)
        mine = [one for one in alerts if any(candidate.meets(other) for other in one.told.candidates)]
        if mine:
            fields[column] = _tried(fields[column], mine[0], candidate.meets(mine[0].told.candidates[0]))
    return fields


def _tried(field: Field, alert: Alert, is_tried: bool) -> Field:
    """``is_tried``: it is what was tried, and not another candidate that may have the same cause."""
    told = f"{alert.told.text} ({alert.id})"
    if alert.state in (AlertState.OPEN, AlertState.CLOSED):
        return replace(field, colour=Colour.RED, code="confirmed", reason=told, difference=alert.told.effect)
    if alert.state is AlertState.ACKNOWLEDGED:
        by = f"acknowledged by {alert.told.by}: a new baseline; {told}"
        return replace(field, colour=Colour.GREEN, code="acknowledged", reason=None, notes=(by,), changes=())
    if alert.state is AlertState.REFUTED and is_tried:
        return replace(field, colour=Colour.GREEN, code="refuted", reason=None, notes=(told,), changes=())
    return replace(field, reason=f"{str(field.reason).partition('; unconfirmed')[0]}; {told}")


def judged_cells(context: Context, schedule: Schedule, columns: Sequence[Column]) -> Mapping[Hashable, Judged]:
    """The cells of those of these nights that are over. They are judged once, and kept until something becomes of one
    of them: the same whichever nights are asked for."""
    over = [one for one in columns if one.experiment_state != ExperimentState.ACTIVE.value]
    ids = [one.experiment_id for one in over if one.experiment_id is not None]
    known_by = (tuple(over), tuple(sorted(context.store.last_changes(ids).items())))
    return context.kept.of(("board", schedule.id), known_by, lambda: _nights_over(context, over))


def _nights_over(context: Context, over: Sequence[Column]) -> Mapping[Hashable, Judged]:
    found = [_cells_of(context, one) for one in over]
    keys = dict.fromkeys(key for cells in found for key in cells)
    return {key: _judged(over, [one.get(key) for one in found]) for key in keys}


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
    where = (plan.gpu_model, plan.node_names, plan.device_ids, plan.interpreter if several else None)
    return (repr(sorted(workload_of(plan).items())), *where)


def _judged(columns: Sequence[Column], cells: Sequence[StoredCell | None]) -> Judged:
    """One cell in all nights; each is judged by those before it and behind it."""
    without = {column: _without_judgement(column, cell) for column, cell in zip(columns, cells, strict=True)}
    rows = {
        column: row_of_cell(cell)
        for column, cell in zip(columns, cells, strict=True)
        if cell is not None and without[column] is None
    }
    observations: list[Observation] = []
    places: dict[str, Place] = {}
    for number, column in enumerate(columns):
        for place, observation in _observed(number, column.at, rows.get(column)):
            places[place.key] = place
            observations.append(observation)
    moves, known = moves_of(observations), judged_points(observations)
    suspects = [one for one in moves if one.difference < 0.0]
    fields, looks = {}, {}
    for number, column in enumerate(columns):
        mine = [one for one in suspects if one.covers(number)]
        fields[column] = without[column] or _with_number(rows[column], mine, places, number in known)
        if fields[column].colour is Colour.AMBER:
            looks[column] = mine[-1]
    return Judged(
        plan=next(cell.runs[0].plan for cell in reversed(cells) if cell is not None),
        fields=fields,
        present=frozenset(column for column, cell in zip(columns, cells, strict=True) if cell is not None),
        suspects=suspects,
        places=places,
        looks=looks,
        cells={
            number: (cell.experiment.id, cell.runs[0].plan.cell_key)
            for number, cell in enumerate(cells)
            if cell is not None
        },
        seen=_seen(sights_of(observations, moves), places, list(rows.values())),
        run_s=_run_s(rows.values()),
        deviation=_deviation(rows.values()),
    )


def _seen(sights: Mapping[str, Sight], places: Mapping[str, Place], rows: Sequence[Row]) -> list[Seen]:
    counts = [sum(len(share.rates) for share in row.shares) for row in rows]
    runs = fmean([one for one in counts if one] or [1])
    return [Seen(places[key].name, sight, _deviation(rows), runs) for key, sight in sights.items()]


def _run_s(rows: Iterable[Row]) -> float:
    """How long a run takes, the mean in seconds."""
    runs = [run for row in rows for run in row.runs]
    took = [run.ended_at - run.started_at for run in runs if run.started_at is not None and run.ended_at is not None]
    return fmean(took) if took else 0.0


def _deviation(rows: Iterable[Row]) -> float | None:
    """Of the logarithm of a run's rate within a night and a subject, over all of these."""
    groups = [[math.log(rate) for rate in share.rates if rate > 0.0] for row in rows for share in row.shares]
    several = [group for group in groups if len(group) > 1]
    degrees = sum(len(group) - 1 for group in several)
    if not degrees:
        return None
    return math.sqrt(sum(variance(group) * (len(group) - 1) for group in several) / degrees)


def _observed(number: int, at: float, row: Row | None) -> Iterator[tuple[Place, Observation]]:
    if row is None or RATE not in row.measurements:
        return iter(())
    prints = {run.id: run.fingerprint or {} for run in row.runs}
    shares = [(share, prints.get(share.run_id, {})) for share in row.shares]
    return observed(number, at, shares, sound=row.grade is Grade.SOUND)


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


def _with_number(row: Row, suspects: Sequence[Suspect], places: Mapping[str, Place], is_told: bool) -> Field:
    """The field of a cell whose runs have all ended. ``is_told``: enough nights came before it."""
    throughput = row.measurements.get(RATE)
    failed = [run for run in row.runs if run.state is RunState.FAILED]
    broken = [run for run in row.runs if run.grade is Grade.BROKEN]
    if failed:
        return Field(Colour.RED, "failed", _why(failed, row.runs, "failed"), throughput=throughput)
    if broken:
        return Field(Colour.INVALID, "broken", _why(broken, row.runs, "broken"), throughput=throughput)
    if throughput is None:
        return Field(Colour.INVALID, "no_number", row.reasons.get(RATE))
    if suspects:
        return _suspected(suspects[-1], places, throughput)
    if is_told:
        return Field(Colour.GREEN, "not_slower", throughput=throughput)
    note = f"nothing to compare with yet: it takes {LEAST_NIGHTS} nights on the same devices"
    return Field(Colour.GREEN, "no_baseline", None, (note,), throughput)


def _suspected(suspect: Suspect, places: Mapping[str, Place], throughput: Measurement) -> Field:
    since = f"{suspect.difference:+.1%} on {places[suspect.place].name} since {told(suspect.begins.at)}"
    if suspect.kind == "drift":
        code, text = "drift", f"gets slower bit by bit: {since}; there are no two subjects to try side by side"
    else:
        code, text = "suspect", f"looks slower: {since}; unconfirmed, as nothing was tried side by side"
    difference = Measurement("difference_ratio", suspect.difference, "1", method="candidate: one level with one step")
    changes = [Change(one.part, one.field, one.before, one.after) for one in suspect.changes]
    return Field(Colour.AMBER, code, text, (), throughput, difference, changes)


def _why(some: Sequence[Run], of: Sequence[Run], word: str) -> str:
    """How many runs, and each different reason once."""
    reasons = {reason.code: reason.text for run in some for reason in why_not_sound(run)}
    told = "; ".join(f"{code}: {text}".strip(": \n") for code, text in reasons.items())
    return f"{len(some)} of {len(of)} runs {'are ' if word == 'broken' else ''}{word}: {told}"
