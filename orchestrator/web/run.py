"""The page of a run: its grade with reasons, what was measured, where its time and memory went, what it printed."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from orchestrator.reports.facts_of import attempt_text, curve_table, measurements_table, run_facts, summary_facts
from orchestrator.reports.figures.run import POINTS, figure
from orchestrator.reports.fingerprint import fingerprint_lines
from orchestrator.reports.numbers import plain
from orchestrator.reports.tables import waterfall
from orchestrator.reports.tables.profile_tables import MOST_ROWS, profile_tables
from orchestrator.reports.tables.results_table import Table
from orchestrator.web.figures import pictures
from orchestrator.web.grid import Grid, grid
from orchestrator.web.page import Asked, Page, moved
from orchestrator.web.rest import Refused, path_of, twin_of
from orchestrator.web.stretch import Stretch

Json = Mapping[str, Any]
PROFILES = ("memory", "kernels", "layers")
LOG_PIECES = 500  # that a page shows: a judgement
BAR = 1000.0  # units across which the bars of a waterfall stretch


@dataclass(frozen=True)
class Bar:
    """A part of a whole: from ``x`` on, ``width`` of ``BAR``. ``look``: whole, more or less."""

    x: float
    width: float
    look: str


@dataclass(frozen=True)
class Share:
    """A class of memory: ``value`` of ``peak`` bytes, as ``text``."""

    name: str
    value: float
    peak: float
    text: str


async def run(asked: Asked) -> Page | Response:
    """One run, also while it goes on."""
    stretch = Stretch.of(asked)
    path = path_of("runs", asked.id("run_id"))
    found = await asked.rest.get(path)
    measured = await asked.rest.get(f"{path}/measurements")
    is_over = found["ended_at"] is not None
    asked_for = found["plan"]["profile"] if is_over else []
    profiles = {name: await asked.rest.get(f"{path}/{name}") for name in PROFILES if asked_for}
    profiles = {name: told for name, told in profiles.items() if name in asked_for or not told["reason"]}
    several = found["plan"]["topology"] != "1x1" and is_over
    explained, why_not = await _explained(asked, f"{path}/waterfall") if several else (None, None)
    log = await asked.rest.get(f"{path}/log", limit=LOG_PIECES)
    asked_for_s = {"from_s": stretch.from_s, "to_s": stretch.to_s, "points": POINTS}
    over_time = await asked.rest.get(f"{path}/time-series", **asked_for_s)

    def content() -> Json:
        plan, reasons = found["plan"], (found["validity"] or {}).get("reasons")  # which the grade tells
        curve = curve_table(found["summary"] or {})
        title = f"{plan['model']} {plan['framework']} {plan['topology']}, batch {plan['per_device_batch_size']}"
        return {
            "run": found,
            "cell": title,
            "facts": [pair for pair in run_facts(found) if pair[0] != "why" or not reasons],
            "attempts": [(f"attempt {one['number']}", attempt_text(one)) for one in found["attempts"]],
            "is_over": is_over,
            "measured": grid(_with_n(measurements_table(measured["items"]), measured["items"]), "Measurements"),
            "pictures": pictures(_figure(found, over_time, stretch)),
            "stretch": stretch,
            "end_s": over_time["end_s"],
            "nothing_over_time": over_time["reason"],
            "others": list(stretch.others(asked, over_time["end_s"] or 0.0)),
            "curve": grid(curve, "Quality over time") if curve else None,
            "summary": summary_facts(found["summary"] or {}),
            "waterfall": waterfall_grid(explained) if explained else None,
            "bars": bars(explained) if explained else [],
            "why_no_waterfall": why_not,
            "profiles": [(name, _profile_grids(name, answer), answer["reason"]) for name, answer in profiles.items()],
            "shares": shares(profiles.get("memory")),
            "fingerprint": fingerprint_lines(found["fingerprint"]) if found["fingerprint"] else [],
            "series": (found["fingerprint"] or {}).get("workload_key"),
            "log": "".join(_pieces(log["items"])),
            "log_goes_on": log["next_cursor"] is not None,
            "twins": {
                name: twin_of(f"{path}/{name}") for name in ("measurements", "time-series", "log", "trace", *PROFILES)
            },
        }

    return Page("run.html", f"{found['id']}", content, twin_of(path))


def _figure(found: Json, over_time: Json, stretch: Stretch) -> Iterator[Json]:
    with suppress(ValueError):  # no step was reported
        yield figure(found["id"], over_time, stretch.from_s, stretch.to_s)


async def order_run(asked: Asked) -> Page | Response:
    """Cancel it."""
    path = path_of("runs", asked.id("run_id"))
    await asked.rest.post(f"{path}/cancel")
    return moved(path)


async def _explained(asked: Asked, path: str) -> tuple[Any, str | None]:
    """(where its time goes, why that cannot be told)."""
    try:
        return await asked.rest.get(path), None
    except Refused as refused:
        if refused.status >= 500:
            raise
        return None, str(refused)


def _with_n(table: Table, measured: Sequence[Json]) -> Table:
    """The table with how many observations are behind each number."""
    numbers = ["" if one["n"] is None else plain(one["n"], 3) for one in measured]
    rows = [[*row[:3], number, row[3]] for row, number in zip(table.rows, numbers, strict=True)]
    return Table(table.common, [*table.headers[:3], "n", table.headers[3]], rows, table.notes)


def waterfall_grid(found: Json) -> Grid:
    """An iteration, part by part."""
    rows = [list(row) for row in waterfall.rows(found)]
    notes = [waterfall.bottleneck(found), *waterfall.notes(found)]
    table = Table(waterfall.title(found), ["part", "time", "95 % CI", "note"], rows, notes)
    return grid(table, "Where an iteration goes")


def bars(found: Json) -> list[Bar]:
    """A bar for each row of ``waterfall_grid``: each part begins where what came before ends."""
    ends, bounds, reached = [], [], 0.0
    for number, part in enumerate(found["parts"]):
        seconds = part["seconds"] or 0.0
        start, reached = (0.0, seconds) if number == 0 else (reached, reached + seconds)
        bounds.append((start, reached))
        ends += [start, reached]
    bounds.append((0.0, found["iteration_s"]))
    scale = BAR / (max([*ends, found["iteration_s"]]) or 1.0)
    whole = {0, len(bounds) - 1}
    return [
        Bar(
            max(0.0, min(low, high)) * scale,
            max(2.0, abs(high - low) * scale),
            "whole" if number in whole else "more" if high >= low else "less",
        )
        for number, (low, high) in enumerate(bounds)
    ]


def _profile_grids(name: str, answer: Json) -> list[Grid]:
    """Of each table its title, if it has one, stands above it."""
    return [grid(one, one.common or one.headers[0]) for one in profile_tables(name, answer, MOST_ROWS)]


def shares(answer: Json | None) -> list[Share]:
    """The classes of memory when the whole was greatest."""
    if answer is None or answer["reason"]:
        return []
    (table,) = profile_tables("memory", answer, None)
    texts = {row[0]: row[2] for row in table.rows}
    peak = float(answer["peak_bytes"])
    return [
        Share(name.replace("_", " "), float(one["at_peak_bytes"]), peak, texts[name.replace("_", " ")])
        for name, one in answer["classes"].items()
    ]


def _pieces(items: Sequence[Json]) -> list[str]:
    """What was printed. Where another process or stream cuts in, its text begins on a new line."""
    pieces, before, ended = [], None, True
    for item in items:
        source = (item["node"], item["process"], item["stream"])
        if source != before:
            pieces.append(("" if ended else "\n") + f"[{item['node']} {item['process']} {item['stream']}]\n")
        pieces.append(item["text"])
        before, ended = source, item["text"].endswith("\n")
    return pieces
