"""The cells of one experiment against each other, in words: a line a pair, and what must be said below."""

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.reports.numbers import NOTHING, plain
from orchestrator.reports.results_table import AXES, Table, axis_text

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


def comparisons_table(found: Json) -> Table:
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
    return Table(_heading_of(found), [*map(heading, axes), "comparison", "p", "blocks"], rows, notes(found))


def p_text(p: float) -> str:
    """A probability of error, to two digits; below 0.001 it is said to be that small."""
    return "< 0.001" if p < 0.001 else plain(p, 2)


def lines(found: Json) -> list[str]:
    """The same as a line a pair, for below another table."""
    told = []
    for item in found["items"]:
        group = ", ".join(f"{heading(axis)} {axis_text(value)}" for axis, value in item["group"].items())
        told.append(f"{group}: {sentence(item)}" if group else sentence(item))
    return told


def notes(found: Json) -> list[str]:
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
