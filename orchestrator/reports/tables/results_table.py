"""The table of results: what differs between the cells as columns, what is the same for all above it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.domain.asked.fields import BY_NAME, FIELDS, in_order
from orchestrator.reports.numbers import (
    NOTHING,
    duration,
    ends_of,
    memory,
    percent,
    value_of,
    with_interval,
)
from workers.trainer.protocol import OWN_SCRIPT

Row = Mapping[str, Any]  # a result row as REST answers it

_HEADED = in_order(
    (field for field in FIELDS if field.heading),
    "model framework per_device_batch_size topology size data data_on precision strategy interpreter device fabric "
    "seed options",
)
# axis -> heading. In this order; the first three are always columns.
AXES = {name: BY_NAME[name].heading or name for name in _HEADED}
_ALWAYS = ("model", "framework", "per_device_batch_size")
_OF_SCRIPTS = ("framework",)
_TOLD_OF_SCRIPTS = ("topology", "device", "options")
_UNTOLD: dict[str, Any] = {
    "placement": "any",
    "mode": "throughput",
    "fabric": None,
    "profile": [],
    "options": {},
    "data_on": "host",
}


@dataclass(frozen=True)
class Table:
    """``common``: what is the same for all rows; ``notes``: what must be said below it."""

    common: str
    headers: list[str]
    rows: list[list[str]]
    notes: list[str]


def results_table(rows: Sequence[Row]) -> Table:
    """The table of ``rows``."""
    columns = columns_of(rows)
    differing = differing_options([row["axes"]["options"] for row in rows])
    rates = [row["throughput"] for row in rows if row["throughput"]]
    units = sorted({rate["unit"] for rate in rates})
    unit = units[0] if len(units) == 1 else None
    measured: list[tuple[str, Callable[[Row], str]]] = [
        (f"{unit or 'throughput'} (95 % CI)", lambda row: _rate(row, unit)),
        ("runs", _runs),
        ("step p50", lambda row: duration(value_of(row["step_time_p50_s"]))),
        ("CPU", lambda row: percent(value_of(row["cpu_utilization_ratio"]))),
    ]
    if any(row["axes"]["device"] == "cuda" for row in rows):
        measured.append(("GPU busy", lambda row: percent(value_of(row["compute_utilization_ratio"]))))
    measured.append(("peak memory", lambda row: memory(value_of(row["peak_memory_bytes"]))))
    if any(row["axes"]["mode"] == "convergence" for row in rows):
        measured += [("quality", _quality), ("to target", _to_target)]
    footnotes: list[str] = []
    cells = [
        [cell_text(row["axes"], axis, differing) for axis in columns] + [cell(row) for _, cell in measured]
        for row in rows
    ]
    for line, row in zip(cells, rows, strict=True):
        line.append(_note(row, footnotes))
    headers = [AXES[axis] for axis in columns] + [name for name, _ in measured] + ["note"]
    if all(not line[-1] for line in cells):
        headers, cells = headers[:-1], [line[:-1] for line in cells]
    return Table(common_text(rows, columns), headers, cells, footnotes + _notes(rows))


def run_that_counts(row: Row) -> str:
    """One of the runs that the numbers of a row rest on."""
    left_out = {one["run_id"] for one in row["left_out"]}
    return str(next((one for one in row["run_ids"] if one not in left_out), row["run_ids"][0]))


def columns_of(rows: Sequence[Row]) -> list[str]:
    """The axes that have several values in ``rows``, or the cells of a comparison, and those that are always told."""
    differing = differing_axes(rows)
    always = _OF_SCRIPTS if _are_own(rows) else _ALWAYS
    return [axis for axis in AXES if axis in always or axis in differing]


def _are_own(rows: Sequence[Row]) -> bool:
    """Whether all of them are of people's own scripts, which have no say in most fields of a spec."""
    return bool(rows) and all(OWN_SCRIPT in (row["axes"]["model"], row["axes"]["framework"]) for row in rows)


def differing_axes(rows: Sequence[Row]) -> list[str]:
    """The axes that have several values; not the interpreter where it says no more than the framework does."""
    found = [axis for axis in AXES if _has_several(rows, axis)]
    if all(row["axes"]["interpreter"] == row["axes"]["framework"] for row in rows):
        return [axis for axis in found if axis != "interpreter"]
    return found


def _has_several(rows: Sequence[Row], axis: str) -> bool:
    return len({repr(row["axes"][axis]) for row in rows}) > 1


def differing_options(options: Sequence[Mapping[str, Any]]) -> set[str]:
    """The options that are not the same in all cells: the others need not stand in every line."""
    names = {name for one in options for name in one}
    return {name for name in names if len({repr(one.get(name)) for one in options}) > 1}


def cell_text(axes: Mapping[str, Any], axis: str, differing: set[str]) -> str:
    """The value of an axis of one cell in words; of its options those that are ``differing``."""
    value = axes[axis]
    if axis == "options":
        value = {name: option for name, option in value.items() if name in differing}
    return axis_text(value)


def axis_text(value: Any) -> str:
    """The value of an axis in words."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={axis_text(item)}" for key, item in value.items() if item is not None) or NOTHING
    if isinstance(value, list):
        return ",".join(map(str, value)) or NOTHING
    return NOTHING if value is None else str(value)


def _rate(row: Row, unit: str | None) -> str:
    throughput = row["throughput"]
    if not throughput:
        return NOTHING
    return with_interval(throughput) + ("" if unit else f" {throughput['unit']}")


def _quality(row: Row) -> str:
    """The best of each run, with its interval."""
    return with_interval(row["quality_best"]) if row["quality_best"] else NOTHING


def _to_target(row: Row) -> str:
    """The time of training to the target; in words where not all runs reached it."""
    if row["time_to_target_s"]:
        return duration(row["time_to_target_s"]["value"])
    return NOTHING if row["axes"]["target"] is None or not row["quality_best"] else "not reached"


def _runs(row: Row) -> str:
    """How many runs the numbers rest on; of how many, where that is not all that have ended."""
    ended = row["n_runs"] - row["n_pending"]
    return f"{row['n_used']}" if row["n_used"] == ended else f"{row['n_used']} of {ended}"


def _note(row: Row, footnotes: list[str]) -> str:
    """A few words, and a number where ``footnotes`` gets the rest."""
    words = [f"{row['n_pending']} to run"] if row["n_pending"] else []
    if row["n_used"] == 1:
        words.append("single run")
    words += _precision(row, footnotes)
    validity = row["validity"]
    if row["grade"] != "sound" and validity["reasons"] and row["n_runs"] > row["n_pending"]:
        words.append(row["grade"] + _mark(footnotes, "; ".join(reason["text"] for reason in validity["reasons"])))
    if row["settled"] is False:
        words.append("not settled" + _mark(footnotes, row["not_settled_because"]))
    if row["n_scouts"]:
        words.append(f"{row['n_scouts']} too short for its warm-up")
    if row["between_sessions"]:
        moved = row["between_sessions"]
        words.append(f"moves {percent(moved['deviation_ratio'], 2)} between sessions")
    if row["left_out"] and row["grade"] != "broken":
        words.append(f"{len(row['left_out'])} left out" + _mark(footnotes, left_out_text(row)))
    if validity["notes"]:
        words.append("note" + _mark(footnotes, "; ".join(validity["notes"])))
    return ", ".join(words)


def _precision(row: Row, footnotes: list[str]) -> list[str]:
    """What there is to say of a wanted precision that was not reached."""
    wanted = row.get("precision")
    if not wanted or wanted["met"] or row["n_pending"]:
        return []
    if wanted["half_width_ratio"] is None:
        return ["precision unknown" + _mark(footnotes, "fewer than two runs of the first stage have a rate")]
    reached, target = percent(wanted["half_width_ratio"], 2), percent(wanted["target"], 2)
    text = f"± {reached} after {row['n_used']} runs; ± {target} takes {wanted['n_wanted']}: see max_repeats"
    return ["precision not reached" + _mark(footnotes, text)]


def _mark(footnotes: list[str], text: str) -> str:
    """The mark of a footnote: one of the same words has it already."""
    known = [note.partition(" ")[2] for note in footnotes]
    if f"{text}." not in known:
        footnotes.append(f"[{len(footnotes) + 1}] {text}.")
        known.append(f"{text}.")
    return f" [{known.index(f'{text}.') + 1}]"


def _why_short(row: Row) -> str | None:
    if row["axes"].get("target") is None or row.get("time_to_target_s") or not row.get("quality_best"):
        return None
    why: str | None = row["reasons"].get("time_to_target_s")
    return why


def left_out_text(row: Row) -> str:
    """Why runs of a cell that has numbers were left out: each reason with its count and the last text."""
    counts: dict[str, int] = {}
    texts: dict[str, str] = {}
    for run in row["left_out"]:
        for reason in run["reasons"]:
            counts[reason["code"]] = counts.get(reason["code"], 0) + 1
            texts[reason["code"]] = reason["text"]
    parts = [f"{code} ({count} of {row['n_runs']} runs, such as: {texts[code]})" for code, count in counts.items()]
    return "left out: " + ("; ".join(parts) or "sound replacements, where all planned runs count")


def common_text(rows: Sequence[Row], columns: Sequence[str]) -> str:
    """What is the same for all cells, but for the axes that are ``columns``."""
    if not rows:
        return ""
    differing = differing_options([row["axes"]["options"] for row in rows])
    axes = dict(rows[0]["axes"])
    axes["options"] = {name: value for name, value in axes["options"].items() if name not in differing}
    told = [axis for axis in AXES if axis == "options" or (axis not in columns and not _has_several(rows, axis))]
    told = [axis for axis in told if axis not in _UNTOLD or axes[axis] != _UNTOLD[axis]]
    if _are_own(rows):
        told = [axis for axis in told if axis in _TOLD_OF_SCRIPTS]
    return ", ".join(f"{AXES[axis]} {axis_text(axes[axis])}" for axis in told if axis_text(axes[axis]) != NOTHING)


def _notes(rows: Sequence[Row]) -> list[str]:
    notes = []
    if any(row["throughput"] and ends_of(row["throughput"]) is None for row in rows):
        notes.append("Without an interval: a single run knows nothing of how runs differ. Repeat it.")
    if any(row["grade"] == "disturbed" for row in rows):
        notes.append("disturbed: too few runs were sound; all planned ones count: the rate beside what else ran.")
    notes += sorted({f"Not reached: {why}." for row in rows if (why := _why_short(row))})
    differing = sorted({part for row in rows for part in row["fingerprint_differs_in"]})
    if differing:
        notes.append(f"Runs of one cell differ in {' and '.join(differing)}: see tbd show RUN.")
    return notes
