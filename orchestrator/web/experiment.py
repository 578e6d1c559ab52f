"""The page of an experiment: its cells, what can be said of them against each other, and what one may do with it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from starlette.responses import Response

from orchestrator.reports.facts_of import experiment_facts, remarkable_table
from orchestrator.reports.figures.cells import cell_name
from orchestrator.reports.html_report import figures_of
from orchestrator.reports.numbers import comparable, value_of
from orchestrator.reports.tables.comparison import pairs_table
from orchestrator.reports.tables.results_table import AXES, run_that_counts
from orchestrator.reports.tables.scaling import scaling_table
from orchestrator.web.figures import pictures
from orchestrator.web.grid import Grid, Head, grid
from orchestrator.web.lists import results_grid
from orchestrator.web.page import Asked, Page, moved
from orchestrator.web.rest import Refused, path_of, twin_of

Json = Mapping[str, Any]
# Judgements: of cells on a page, and of those that are compared unasked: a thousand cells have half a million pairs.
MOST_CELLS, MOST_COMPARED = 200, 60
MOST_PROFILED = 12  # cells whose memory is drawn
ORDERS = ("cancel", "pause", "resume")

# heading -> what the rows are sorted by.
_MEASURED: Mapping[str, Callable[[Json], Any]] = {
    "rate": lambda row: value_of(row["throughput"]),
    "runs": lambda row: row["n_used"],
    "step p50": lambda row: value_of(row["step_time_p50_s"]),
    "CPU": lambda row: value_of(row["cpu_utilization_ratio"]),
    "GPU busy": lambda row: value_of(row["compute_utilization_ratio"]),
    "peak memory": lambda row: value_of(row["peak_memory_bytes"]),
    "quality": lambda row: value_of(row["quality_best"]),
    "to target": lambda row: value_of(row["time_to_target_s"]),
}
_AXIS_OF = {heading: axis for axis, heading in AXES.items()}


async def experiment(asked: Asked) -> Page | Response:
    """One experiment, also while it goes on."""
    path = path_of("experiments", asked.id("experiment_id"))
    found = await asked.rest.get(path)
    rows = await asked.rest.get(f"{path}/results", limit=MOST_CELLS, cursor=asked.query.get("cursor"))
    runs = await asked.rest.get(f"{path}/runs", limit=MOST_CELLS)
    is_whole = rows["next_cursor"] is None and "cursor" not in asked.query
    is_small = len(rows["items"]) <= MOST_COMPARED
    pairs = await _told(asked, f"{path}/comparisons", is_whole and (is_small or "axis" in asked.query))
    scaled = await _told(asked, f"{path}/scaling", is_whole and _has_several_devices(rows["items"]))
    is_drawn = is_whole and found["state"] != "active"
    memory = await _memory(asked, rows["items"]) if is_drawn else []

    def content() -> Json:
        all_runs = [] if runs["next_cursor"] else runs["items"]
        counts = found["run_counts"]
        over = sum(counts[state] for state in ("completed", "failed", "cancelled"))
        return {
            "experiment": found,
            "facts": experiment_facts(found, all_runs),
            "over": over,
            "of": sum(counts.values()),
            "results": cells_grid(asked, rows["items"]),
            "results_twin": twin_of(f"{path}/results"),
            "following": asked.at(cursor=rows["next_cursor"]) if rows["next_cursor"] else None,
            "first": asked.at() if "cursor" in asked.query else None,
            "pairs": grid(pairs_table(pairs), "Comparison") if pairs and pairs["items"] else None,
            "axes": [(one, asked.at(axis=one)) for one in (pairs or {}).get("axes", ())],
            "compare": None if is_small or not is_whole or pairs else asked.at(axis="framework"),
            "scaling": grid(scaling_table(scaled), "Scaling") if scaled and scaled["items"] else None,
            "pictures": pictures(figures_of(_drawn(found, rows, runs, scaled, memory)) if is_drawn else ()),
            "remarkable": _remarkable(runs["items"]),
            "damaged": [*rows["damaged"], *runs["damaged"]],
        }

    return Page("experiment.html", found["name"], content, twin_of(path))


async def order_experiment(asked: Asked) -> Page | Response:
    """Cancel, pause or resume it."""
    path = path_of("experiments", asked.id("experiment_id"))
    if asked.form.get("order") in ORDERS:
        await asked.rest.post(f"{path}/{asked.form['order']}")
    return moved(path)


async def _told(asked: Asked, path: str, is_wanted: bool) -> Any:
    """REST's answer where it is wanted; None where it is not, or where there is nothing to tell of such an experiment.

    Raises:
        Refused: the axis that the URL names is wrong.
    """
    if not is_wanted:
        return None
    chosen = {name: asked.query[name] for name in ("axis", "baseline") if name in asked.query}
    try:
        return await asked.rest.get(path, **(chosen if path.endswith("comparisons") else {}))
    except Refused as refused:
        if chosen or refused.status >= 500:
            raise
        return None


async def _memory(asked: Asked, rows: Sequence[Json]) -> list[tuple[str, Json]]:
    """Of the first cells that were profiled so: (by what it differs from the others, where its memory went)."""
    profiled = [row for row in rows if "memory" in row["axes"]["profile"] and row["throughput"]]
    told = [
        (cell_name(row, rows, but=()), await asked.rest.get(path_of("runs", run_that_counts(row), "memory")))
        for row in profiled[:MOST_PROFILED]
    ]
    return [(name, found) for name, found in told if not found["reason"]]


def _drawn(found: Json, rows: Json, runs: Json, scaled: Json | None, memory: Sequence[tuple[str, Json]]) -> Json:
    """What figures are made of, as that of a report."""
    material = {"experiment": found, "rows": rows["items"], "runs": runs["items"], "memory": memory}
    return material | {"scaling": scaled or {"items": []}}


def _has_several_devices(rows: Sequence[Json]) -> bool:
    return any(row["axes"]["topology"] != "1x1" for row in rows)


def cells_grid(asked: Asked, rows: Sequence[Json]) -> Grid:
    """The table of cells, sorted by a column that the URL names (``sort=rate``, ``sort=-rate``)."""
    wanted = asked.query.get("sort", "")
    name, descending = wanted.removeprefix("-"), wanted.startswith("-")
    key = _key_of(name)
    found = results_grid(rows if key is None else _in_order(rows, key, descending), "Results")
    return replace(found, heads=[_head(asked, head, name, descending) for head in found.heads])


def _head(asked: Asked, head: Head, name: str, descending: bool) -> Head:
    """The heading as a link that sorts by it, the other way round where it does already."""
    own = "rate" if head.text.endswith("(95 % CI)") else head.text
    if _key_of(own) is None:
        return head
    is_sorted = own == name
    href = asked.at(sort=own if is_sorted and descending else f"-{own}")
    return replace(head, href=href, sorted=("descending" if descending else "ascending") if is_sorted else None)


def _key_of(name: str) -> Callable[[Json], Any] | None:
    if name in _MEASURED:
        return _MEASURED[name]
    axis = _AXIS_OF.get(name)
    return None if axis is None else lambda row: row["axes"][axis]


def _in_order(rows: Sequence[Json], key: Callable[[Json], Any], descending: bool) -> list[Json]:
    """What has no number comes last in either order."""
    told = [row for row in rows if key(row) is not None]
    untold = [row for row in rows if key(row) is None]
    return [*sorted(told, key=lambda row: comparable(key(row)), reverse=descending), *untold]


def _remarkable(runs: Sequence[Json]) -> Grid:
    found = remarkable_table(runs)
    return grid(found, "Runs that are not simply completed", {"run": [path_of("runs", row[0]) for row in found.rows]})
