"""The table of a comparison."""

from collections.abc import Mapping
from typing import Any

from orchestrator.reports.numbers import NOTHING, percent, plain, with_interval
from orchestrator.reports.results_table import AXES, Table, axis_text, cell_text, columns_of, differing_options

Json = Mapping[str, Any]


def comparison_table(comparison: Json) -> Table:
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
            verdict(item),
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
    text = signed_percent(difference["value"])
    if difference["ci_low"] is None:
        return text
    return f"{text} ({signed_percent(difference['ci_low'])} to {signed_percent(difference['ci_high'])})"


def signed_percent(ratio: float) -> str:
    """A relative difference with its sign."""
    return f"{'+' if ratio > 0 else ''}{plain(100 * ratio, 3)} %"


def verdict(item: Json) -> str:
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
