"""Comparisons of cells in tables and in words: in pairs within one experiment, and of two experiments or runs."""

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.reports.numbers import NOTHING, percent, plain, with_interval
from orchestrator.reports.tables.results_table import AXES, Table, axis_text, cell_text, columns_of, differing_options

Json = Mapping[str, Any]
_OPTION = "options."
_HEADINGS = {**AXES, "global_batch_size": "batch"}


def heading(axis: str) -> str:
    """The name of an axis as tables head it."""
    return _HEADINGS.get(axis, axis.removeprefix(_OPTION))


def sentence(item: Json) -> str:
    """What can be said of a pair: the ratio with its interval, and that it tells nothing where it includes 1."""
    ratio = item["ratio"]
    if item["verdict"] != "cannot_tell":
        return str(item["text"])
    low, high = (plain(ratio[end], 3) for end in ("ci_low", "ci_high"))
    return f"{item['b']['label']} {plain(ratio['value'], 3)} x {item['a']['label']} ({low} to {high}): {item['text']}"


def pairs_table(found: Json) -> Table:
    """One line per pair: what its cells agree in, what can be said, how sure."""
    items = found["items"]
    axes = list(items[0]["group"]) if items else []
    rows = [
        [
            *(axis_text(item["group"][axis]) for axis in axes),
            sentence(item),
            NOTHING if item["p_holm"] is None else p_text(item["p_holm"]),
            str(item["blocks"]),
        ]
        for item in items
    ]
    return Table(_heading_of(found), [*map(heading, axes), "comparison", "p", "blocks"], rows, pair_notes(found))


def p_text(p: float) -> str:
    """A probability of error, to two digits; below 0.001 it is said to be that small."""
    return "< 0.001" if p < 0.001 else plain(p, 2)


def pair_lines(found: Json) -> list[str]:
    """The same as a line a pair, for below another table."""
    told = []
    for item in found["items"]:
        group = ", ".join(f"{heading(axis)} {axis_text(value)}" for axis, value in item["group"].items())
        told.append(f"{group}: {sentence(item)}" if group else sentence(item))
    return told


def pair_notes(found: Json) -> list[str]:
    """How the pairs were judged, what of, and which cells take part in no verdict."""
    told = _how(found["items"], found["scope"])
    told += list(dict.fromkeys(note for item in found["items"] for note in item["notes"]))
    told += [f"not compared: {_cell(one['axes'], found)}: {one['reason']}" for one in found["not_compared"]]
    return told


def _heading_of(found: Json) -> str:
    against = f", against {found['baseline']}" if found["baseline"] else ""
    return f"by {heading(found['axis'])}{against}" if found["axis"] else ""


def _how(items: Sequence[Json], scope: str | None) -> list[str]:
    if not items:
        return []
    pairs = items[0]["family"]
    methods = "; ".join(dict.fromkeys(item["method"] for item in items))
    over = f" over {pairs} pairs, at 5 % for all of them together" if pairs > 1 else ""
    told = [f"{methods}{over}{f'; of {scope}' if scope else ''}."]
    if any(item["grade"] == "disturbed" for item in items):
        told.append("All planned runs of all cells count, as too few of one were sound: with what else ran.")
    return told


def _cell(axes: Json, found: Json) -> str:
    """A cell by what it has on the axis, and on the others that have several values."""
    return ", ".join(f"{heading(axis)} {axis_text(_value(axes, axis))}" for axis in found["axes"]) or axes["model"]


def _value(axes: Json, axis: str) -> Any:
    """A switch that is off is not among the options of a cell."""
    return axes["options"].get(axis.removeprefix(_OPTION), False) if axis.startswith(_OPTION) else axes[axis]


def sides_table(comparison: Json) -> Table:
    """One line per cell that both have; what could not be matched, and what differs beside, as notes."""
    items = comparison["items"]
    columns = columns_of(items)
    differing = differing_options([item["axes"]["options"] for item in items])
    rows = [
        [
            *(cell_text(item["axes"], axis, differing) for axis in columns),
            with_interval(item["baseline"]),
            with_interval(item["candidate"]),
            _difference(item["difference"]),
            _verdict(item),
        ]
        for item in items
    ]
    units = sorted({item["unit"] for item in items if item["unit"]})
    unit = units[0] if len(units) == 1 else "rate"
    headers = [*(AXES[axis] for axis in columns), f"A {unit}", f"B {unit}", "B / A - 1 (95 % CI)", "verdict"]
    return Table("", headers, rows, _notes(comparison))


def _difference(difference: Json | None) -> str:
    if difference is None or difference["value"] is None:
        return NOTHING
    text = _signed_percent(difference["value"])
    if difference["ci_low"] is None:
        return text
    return f"{text} ({_signed_percent(difference['ci_low'])} to {_signed_percent(difference['ci_high'])})"


def _signed_percent(ratio: float) -> str:
    """A relative difference with its sign."""
    return f"{'+' if ratio > 0 else ''}{plain(100 * ratio, 3)} %"


def _verdict(item: Json) -> str:
    """What can be said of one cell, in words."""
    if item["difference"] is None:
        missing = [name for name, side in (("A", "baseline"), ("B", "candidate")) if item[side] is None]
        return f"cannot tell: no run with a rate in {' and '.join(missing)}"
    if item["verdict"] != "cannot_tell":
        return f"B is {item['verdict']}"
    least = item["smallest_detectable_ratio"]
    return "cannot tell: a side has a single run" if least is None else f"cannot tell below {percent(least, 2)}"


def _notes(comparison: Json) -> list[str]:
    notes = [
        f"only in {one['side']}: {', '.join(f'{key} {axis_text(value)}' for key, value in one['axes'].items())}"
        for one in comparison["unmatched"]
    ]
    changes: dict[str, None] = {}
    for item in comparison["items"]:
        for change in item["changes"]:
            before, after = axis_text(change["baseline"]), axis_text(change["candidate"])
            changes[f"differs beside: {change['part']} {change['field']}: {before} → {after}"] = None
    if not comparison["items"]:
        notes.insert(0, "the two have no cell in common")
    return notes + list(changes)
