"""Imported series as the history of a series is shown: the same plot, table and figure, marked as imported."""

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.domain.asked.fingerprint import differences
from orchestrator.reports.results_table import Table

Json = Mapping[str, Any]
MARK = "imported"


def series_text(one: Json) -> str:
    """What an imported series measures, in a line. ``one``: a series, or a point of it."""
    workload = one["workload"]
    source = f" from {one['source']}" if one["source"] else ""
    said = [f"{MARK}: {one['tool']} {one['benchmark']}{source}", *workload.get("arguments", [])]
    return ", ".join([*said, *workload.get("device_models", [])])


def imported_series_table(items: Sequence[Json]) -> Table:
    """One line per imported series."""
    rows = [
        [item["key"], str(item["n_points"]), item["last_at"][:16].replace("T", " "), series_text(item)]
        for item in items
    ]
    note = "imported series were measured by other tools: nothing of tbd is compared with them (docs/use/export.md)"
    return Table("", ["series", "points", "newest (UTC)", "workload"], rows, [note])


def imported_history(points: Sequence[Json]) -> dict[str, Any]:
    """What REST would answer of the history of a series, made of imported points of one series (one or more, oldest
    first): without baselines, and without findings. Where versions or machine changed there is a border with a text."""
    hosts = list(dict.fromkeys(_host(one) for one in points))
    units = [one["throughput"]["unit"] for one in points if one["throughput"]]
    items = [
        _item(number, one, hosts.index(_host(one)), points[number - 1] if number else None)
        for number, one in enumerate(points)
    ]
    return {
        "key": points[0]["series"],
        "workload": {"model": series_text(points[-1])},
        "unit": units[-1] if units else None,
        "n_points": len(points),
        "n_left_out": 0,
        "items": items,
        "lines": [{"line": 0, "interpreter": points[0]["tool"]}],
        "places": [{"id": number, "name": name} for number, name in enumerate(hosts)],
        "baselines": [],
        "borders": [],
        "findings": [],
        "damaged": [],
    }


def _host(one: Json) -> str:
    return str(one["rig"].get("host") or "unknown machine")


def _item(number: int, one: Json, place: int, before: Json | None) -> dict[str, Any]:
    used = sum(1 for process in one["processes"] if process["rate"] is not None)
    rate = one["throughput"]
    return {
        "number": number,
        "at": one["at"],
        "experiment_id": one["id"],
        "experiment_name": one["session"],
        "interpreter": one["tool"],
        "line": 0,
        "throughput": rate,
        "reason": one["reason"],
        "grade": f"{MARK} ({one['tool']} {one['tool_version'] or 'of unknown version'})",
        "reasons": [],
        "n_runs": len(one["processes"]),
        "n_used": used,
        "n_open": 0,
        "sessions": [{"place": place, "value": rate["value"]}] if rate else [],
        "borders": _changes(before, one) if before else [],
    }


def _changes(before: Json, after: Json) -> list[str]:
    return [
        f"{field} {old} → {new}"
        for part in ("subject", "rig")
        for field, old, new in differences(before[part], after[part])
        if field != "milabench_commit"
    ]
