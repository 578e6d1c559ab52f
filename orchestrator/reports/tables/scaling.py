"""How an experiment scales: a table (``figures/scaling.py``: the speed-up over the number of devices)."""

from collections.abc import Mapping
from typing import Any

from orchestrator.reports.numbers import NOTHING, with_interval
from orchestrator.reports.tables.comparison import heading
from orchestrator.reports.tables.results_table import Table, axis_text

Json = Mapping[str, Any]
_MISSING_BY = ("model", "framework", "strategy", "topology", "fabric", "per_device_batch_size", "global_batch_size")
_WHAT = {
    "weak": "weak scaling: the same batch on each device",
    "strong": "strong scaling: one batch, divided over the devices",
}


def scaling_table(found: Json) -> Table:
    """One line per cell; below it what is missing and why."""
    items = found["items"]
    axes = [axis for axis in (items[0]["group"] if items else []) if axis not in ("strategy",)]
    units = {item["throughput"]["unit"] for item in items if item["throughput"]}
    unit = units.pop() if len(units) == 1 else "throughput"
    headers = [*map(heading, axes), "strategy", "topology", "devices", f"{unit} (95 % CI)"]
    headers += ["speed-up (95 % CI)", "efficiency (95 % CI)", "blocks"]
    rows = [
        [
            *(axis_text(item["group"][axis]) for axis in axes),
            item["strategy"],
            item["topology"],
            str(item["world_size"]),
            with_interval(item["throughput"]),
            "1 (baseline)" if item["is_baseline"] else with_interval(item["speedup"], 3),
            NOTHING if item["is_baseline"] else with_interval(item["efficiency"], 3),
            str(item["blocks"]),
        ]
        for item in items
    ]
    return Table(_WHAT[found["kind"]], headers, rows, _notes(found))


def _notes(found: Json) -> list[str]:
    told = [f"{found['method']}; of {found['scope']}."] if found["scope"] else []
    told += list(dict.fromkeys(note for item in found["items"] for note in item["notes"]))
    told += [f"{_name(item)}: {item['reason']}" for item in found["items"] if item["reason"]]
    told += [f"missing: {_name(one['cell'])}: {one['reason']}" for one in found["missing"]]
    return told


def _name(cell: Json) -> str:
    named = [(axis, cell[axis]) for axis in _MISSING_BY if cell.get(axis) not in (None, "auto")]
    return ", ".join(f"{heading(axis)} {axis_text(value)}" for axis, value in named[:5])
