"""The columns of an export: one table of what a line of it says, whatever the format.

A line is a cell of an experiment, or a run of one. Names of columns, their order and their kinds are a promise: new
columns come at the end of their group, and docs/use/export.md lists them all.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import UnionType
from typing import Any, get_args, get_type_hints

from orchestrator.domain.asked.fields import FIELDS, Field
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.asked.topology import Topology
from orchestrator.domain.runs.row import Row, why_not_sound
from orchestrator.domain.runs.run import Experiment, Run
from orchestrator.domain.value.measurement import METRICS, Grade, Measurement, Validity
from orchestrator.domain.words.errors import Damaged

Record = dict[str, Any]
_HINTS = get_type_hints(Plan)


class Kind(StrEnum):
    """What a column holds; every column may hold nothing. TIME is in seconds since the epoch until it is written."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    TRUTH = "true or false"
    TIME = "time"
    JSON = "JSON"


@dataclass(frozen=True)
class Line:
    """A cell with its row of results, or (``run``) one run of it."""

    experiment: Experiment
    row: Row
    run: Run | None = None

    @property
    def plan(self) -> Plan:
        return self.run.plan if self.run else self.row.plan

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        return (self.run.fingerprint if self.run else self.row.fingerprint) or {}

    @property
    def validity(self) -> Validity | None:
        """None for a run that nobody has judged yet."""
        if self.run is None:
            return self.row.validity
        return self.run.validity

    def measured(self, metric: str) -> Measurement | None:
        """The measurement of ``metric``, where it has a value: what a broken run measured is none."""
        if self.run is None:
            return self.row.measurements.get(metric)
        found = self.run.analysis.measurement(metric) if self.run.analysis and self.run.usable else None
        return found if found is not None and found.value is not None else None

    def why_not(self, metric: str) -> str | None:
        """Why ``metric`` has no value; None where it has one."""
        if self.measured(metric) is not None:
            return None
        if self.run is None:
            return self.row.reasons.get(metric, "was not measured")
        if not self.run.usable:
            said = "; ".join(reason.text for reason in why_not_sound(self.run))
            return said or self.run.waiting or f"the run is {self.run.state.value}"
        found = self.run.analysis.measurement(metric) if self.run.analysis else None
        return (found.reason if found else None) or "was not measured"


@dataclass(frozen=True)
class Column:
    """One column. ``unit``: None where it has none, or where another column says it; ``of`` reads it from a line."""

    name: str
    kind: Kind
    text: str
    of: Callable[[Line], Any]
    unit: str | None = None


def _part(name: str, field: str) -> Callable[[Line], Any]:
    """A field of a part of the fingerprint."""
    return lambda line: (line.fingerprint.get(name) or {}).get(field)


def _nodes(field: str) -> Callable[[Line], Any]:
    """node -> a field of its rig."""
    return lambda line: (
        {name: rig.get(field) for name, rig in ((line.fingerprint.get("rig") or {}).get("nodes") or {}).items()} or None
    )


def _planned(field: Field) -> Column:
    """The column of a field of the plan."""
    return Column(
        field.name, _kind(field), field.exported or "", lambda line: _asked(line.plan, field.name), field.unit
    )


def _kind(field: Field) -> Kind:
    """What holds its values: JSON, where they are neither texts nor numbers."""
    hint = _HINTS[field.name]
    types = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    kinds = {str: Kind.TEXT, Topology: Kind.TEXT, int: Kind.INTEGER, float: Kind.NUMBER}
    return next((kinds[one] for one in types if one in kinds), Kind.JSON)


def _asked(plan: Plan, name: str) -> Any:
    """The value of a field; nothing where an empty list was asked for."""
    value = plan.told(name)
    return None if value == [] else value


_EXPERIMENT = (
    Column("experiment_id", Kind.TEXT, "id of the experiment", lambda line: line.experiment.id),
    Column("experiment_name", Kind.TEXT, "its name", lambda line: line.experiment.spec.name),
    Column(
        "experiment_state",
        Kind.TEXT,
        "active, completed, failed or cancelled",
        lambda line: line.experiment.state.value,
    ),
    Column("owner", Kind.TEXT, "whose it is", lambda line: line.experiment.owner),
    Column("labels", Kind.JSON, "its labels, an object", lambda line: dict(line.experiment.spec.labels)),
    Column("submitted_at", Kind.TIME, "when it was submitted", lambda line: line.experiment.created_at),
    Column(
        "cell_key", Kind.TEXT, "names the cell: equal in all experiments that have it", lambda line: line.plan.cell_key
    ),
)
_RUN = (
    Column("run_id", Kind.TEXT, "id of the run", lambda line: line.run and line.run.id),
    Column("repetition", Kind.INTEGER, "which repetition of its cell, from 1", lambda line: line.plan.repetition),
    Column(
        "state",
        Kind.TEXT,
        "queued, placing, running, collecting, completed, failed or cancelled",
        lambda line: line.run and line.run.state.value,
    ),
    Column(
        "failure_kind",
        Kind.TEXT,
        "why it failed, one of a closed list",
        lambda line: line.run and line.run.failure and line.run.failure.kind.value,
    ),
    Column(
        "failure_message",
        Kind.TEXT,
        "the same in words",
        lambda line: line.run and line.run.failure and line.run.failure.message,
    ),
    Column("attempts", Kind.INTEGER, "tries at it so far", lambda line: line.run and len(line.run.attempts)),
    Column(
        "is_counted", Kind.TRUTH, "whether its cell's numbers rest on it", lambda line: line.run and _is_counted(line)
    ),
)
_AXES = tuple(_planned(field) for field in FIELDS if field.exported)
_CELL = (
    Column("n_runs", Kind.INTEGER, "runs of the cell", lambda line: len(line.row.runs)),
    Column("n_used", Kind.INTEGER, "runs that the numbers rest on", lambda line: line.row.n_used),
    Column("n_pending", Kind.INTEGER, "runs that have not ended", lambda line: len(line.row.runs) - line.row.n_ended),
    Column("n_scouts", Kind.INTEGER, "runs that were too short for the cell's warm-up", lambda line: line.row.n_scouts),
    Column(
        "cut_intervals",
        Kind.INTEGER,
        "intervals at the beginning of each run that are warm-up",
        lambda line: line.row.cut and line.row.cut.first,
    ),
    Column(
        "settled",
        Kind.TRUTH,
        "whether the runs were level after it",
        lambda line: line.row.cut and line.row.cut.settled,
    ),
    Column("not_settled_because", Kind.TEXT, "why not", lambda line: line.row.cut and line.row.cut.reason),
)
_GRADE = (
    Column("grade", Kind.TEXT, "sound, disturbed or broken; none before it is judged", lambda line: _grade(line)),
    Column(
        "validity_reasons",
        Kind.JSON,
        "why it is not sound: a list of {code, text, replaceable}",
        lambda line: [reason.to_json() for reason in line.validity.reasons] if line.validity else None,
    ),
    Column(
        "validity_notes",
        Kind.JSON,
        "findings that do not grade, a list; of a cell those about which one can do something",
        lambda line: list(line.validity.notes) if line.validity else None,
    ),
)
_RATE = (
    Column(
        "throughput_value",
        Kind.NUMBER,
        "work trained per second in steady state",
        lambda line: _of(line, "value"),
        "see throughput_unit",
    ),
    Column("throughput_unit", Kind.TEXT, "its unit, such as images/s", lambda line: _of(line, "unit")),
    Column(
        "throughput_unit_definition", Kind.TEXT, "what one unit of work is", lambda line: _of(line, "unit_definition")
    ),
    Column(
        "throughput_ci_low",
        Kind.NUMBER,
        "lower end of its interval",
        lambda line: _of(line, "ci_low"),
        "see throughput_unit",
    ),
    Column(
        "throughput_ci_high",
        Kind.NUMBER,
        "upper end of its interval",
        lambda line: _of(line, "ci_high"),
        "see throughput_unit",
    ),
    Column(
        "throughput_confidence",
        Kind.NUMBER,
        "confidence of the interval, 0 to 1",
        lambda line: _of(line, "confidence"),
        "1",
    ),
    Column("throughput_n", Kind.NUMBER, "independent observations behind it", lambda line: _of(line, "n"), "1"),
    Column("throughput_scope", Kind.TEXT, "of what it speaks", lambda line: _of(line, "scope")),
    Column("throughput_method", Kind.TEXT, "how it was made", lambda line: _of(line, "method")),
    Column("throughput_reason", Kind.TEXT, "why there is none", lambda line: line.why_not("throughput")),
)
_TIMES = (
    Column(
        "created_at",
        Kind.TIME,
        "when the first run was made; of a run: when it was",
        lambda line: min(run.created_at for run in _runs(line)),
    ),
    Column(
        "started_at",
        Kind.TIME,
        "when the first run began",
        lambda line: min(_known(run.started_at for run in _runs(line)), default=None),
    ),
    Column(
        "ended_at",
        Kind.TIME,
        "when the last run ended",
        lambda line: max(_known(run.ended_at for run in _runs(line)), default=None),
    ),
)
_FINGERPRINT = (
    Column(
        "workload_key", Kind.TEXT, "what was measured: keys a series", lambda line: line.fingerprint.get("workload_key")
    ),
    Column("subject_key", Kind.TEXT, "with what: versions and code", lambda line: line.fingerprint.get("subject_key")),
    Column("rig_key", Kind.TEXT, "on what: the machines", lambda line: line.fingerprint.get("rig_key")),
    Column(
        "fingerprint_differs_in",
        Kind.JSON,
        "parts in which the cell's runs differ, a list",
        lambda line: list(line.row.differing),
    ),
    Column("framework_version", Kind.TEXT, "version of the framework", _part("subject", "framework_version")),
    Column("libraries", Kind.JSON, "versions of libraries, an object", _part("subject", "libraries")),
    Column("mathematics", Kind.JSON, "the effective mathematics mode, an object", _part("subject", "mathematics")),
    Column("code_commits", Kind.JSON, "commits of tbd on the nodes, a list", _part("subject", "code_commits")),
    Column("code_dirty", Kind.TRUTH, "whether the code had changes beyond them", _part("subject", "code_dirty")),
    Column(
        "device_models", Kind.JSON, "names of the devices that were used, a list", _part("workload", "device_models")
    ),
    Column(
        "cores_per_device",
        Kind.JSON,
        "cores of a CPU device, a list of the counts there are",
        _part("workload", "cores_per_device"),
    ),
    Column("device_ids", Kind.JSON, "the devices that were used, a list", _part("rig", "device_ids")),
    Column("cpu_models", Kind.JSON, "node -> model of its processor", _nodes("cpu_model")),
    Column("drivers", Kind.JSON, "node -> version of its GPU driver", _nodes("driver")),
    Column("kernels", Kind.JSON, "node -> version of its operating system's kernel", _nodes("kernel")),
    Column("power_limits_w", Kind.JSON, "node -> power limits of its devices", _nodes("power_limits_w"), "W"),
    Column(
        "code_versions",
        Kind.JSON,
        "versions of the analysis that made the numbers, a list",
        lambda line: sorted({run.analysis.code_version for run in _runs(line) if run.analysis}),
    ),
)


def _metrics() -> Iterator[Column]:
    """Every other metric, with the ends of its interval."""
    for metric, (unit, text, _) in METRICS.items():
        if metric == "throughput":
            continue
        said = "J per unit of work" if metric == "energy_per_work_j" else unit
        for field, end in (("value", ""), ("ci_low", "_ci_low"), ("ci_high", "_ci_high")):
            about = text if not end else f"{'lower' if field == 'ci_low' else 'upper'} end of its interval"
            yield Column(f"{metric}{end}", Kind.NUMBER, about, _reader(metric, field), said)


def _reader(metric: str, field: str) -> Callable[[Line], Any]:
    return lambda line: _of(line, field, metric)


_REASONS = (
    Column(
        "reasons",
        Kind.JSON,
        "metric -> why it has no value, an object",
        lambda line: {metric: why for metric in METRICS if (why := line.why_not(metric))},
    ),
)
# What an older version stored and this one cannot read is a line of its own, with nothing but these.
DAMAGED = Column("damaged", Kind.TEXT, "why a stored row cannot be read; empty otherwise", lambda line: None)

CELLS = (*_EXPERIMENT, *_AXES, *_CELL, *_GRADE, *_RATE, *_TIMES, *_FINGERPRINT, *_metrics(), *_REASONS, DAMAGED)
RUNS = (*_EXPERIMENT, *_RUN, *_AXES, *_GRADE, *_RATE, *_TIMES, *_FINGERPRINT, *_metrics(), *_REASONS, DAMAGED)


def record_of(columns: tuple[Column, ...], line: Line | Damaged) -> Record:
    """Name -> value of every column."""
    if isinstance(line, Damaged):
        return dict.fromkeys((column.name for column in columns), None) | {
            "experiment_id": line.experiment_id,
            DAMAGED.name: f"{line.table} {line.id}: {line.reason}. To remove it: {line.way_out}",
        }
    return {column.name: column.of(line) for column in columns}


def finite(value: float | None) -> float | str | None:
    """``value`` for a format whose numbers are finite: the others are words, as in REST."""
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _of(line: Line, field: str, metric: str = "throughput") -> Any:
    found = line.measured(metric)
    return None if found is None else getattr(found, field)


def _runs(line: Line) -> list[Run]:
    return [line.run] if line.run else list(line.row.runs)


def _known(times: Iterator[float | None]) -> list[float]:
    return [time for time in times if time is not None]


def _grade(line: Line) -> str | None:
    grade: Grade | None = line.row.basis.grade if line.run is None else line.run.grade
    return grade.value if grade else None


def _is_counted(line: Line) -> bool:
    return line.run is not None and line.run.id in {run.id for run in line.row.basis.runs}
