"""The first page: the boards of schedules, what runs where, what failed and why."""

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from orchestrator.reports.tables.gate import alerts_table, equal_arms_text
from orchestrator.reports.tables.lists import experiments_table, runs_table
from orchestrator.reports.tables.nightly import COLOURS, board_table
from orchestrator.reports.tables.results_table import Table
from orchestrator.web.grid import Cell, Grid, Head, grid
from orchestrator.web.page import Asked, Page
from orchestrator.web.rest import Refused, path_of, twin_of

Json = Mapping[str, Any]
_RECENT = 10  # failed runs, and alerts: a judgement
_HOLDING = ("placing", "running", "collecting")
_OF_ENDED = ("grade", "rate (95 % CI within the run)", "n")  # what no run that failed has
_SAID = {"G": "green", "?": "suspect", "S": "slower", "F": "failed", "-": "missing", "!": "invalid", "~": "running"}


async def home(asked: Asked) -> Page | Response:
    """What needs somebody's attention, first of all what is missing or red."""
    boards = (await asked.rest.get("/nightly"))["items"]
    alerts = (await asked.rest.get("/alerts", limit=_RECENT))["items"]
    equal_arms = await asked.rest.get("/alerts/equal-arms")
    active = (await asked.rest.get("/experiments", state="active", limit=20))["items"]
    failed = (await asked.rest.get("/runs", state="failed", limit=_RECENT))["items"]
    holding = [one for state in _HOLDING for one in (await asked.rest.get("/runs", state=state, limit=200))["items"]]
    nodes, away = await _nodes(asked)

    def content() -> Json:
        hrefs = {"experiment": [path_of("experiments", one["id"]) for one in active]}
        return {
            "boards": [(board, board_grid(board)) for board in boards],
            "alerts": grid(alerts_table(alerts), "What the regression gate has taken note of"),
            "equal_arms": equal_arms_text(equal_arms) if boards else "",
            "active": grid(experiments_table(active), "Experiments that go on", hrefs),
            "failed": grid(_without(runs_table(failed), *_OF_ENDED), "Runs that failed last", _to_runs(failed)),
            "devices": devices_grid(nodes, holding),
            "away": away,
        }

    return Page("home.html", "tbd", content, twin_of("/nightly"))


async def _nodes(asked: Asked) -> tuple[Sequence[Json], str | None]:
    """(the nodes, why they cannot be told): the rest of the page is of use without a cluster."""
    try:
        return (await asked.rest.get("/nodes"))["items"], None
    except Refused as refused:
        return [], str(refused)


def _to_runs(items: Sequence[Json]) -> dict[str, list[str | None]]:
    return {"run": [path_of("runs", one["id"]) for one in items]}


def _without(table: Table, *headings: str) -> Table:
    kept = [place for place, heading in enumerate(table.headers) if heading not in headings]
    rows = [[row[place] for place in kept] for row in table.rows]
    return Table(table.common, [table.headers[place] for place in kept], rows, table.notes)


def board_grid(board: Json) -> Grid:
    """The board of a schedule. A mark leads to the experiment of its night, and is said in a word."""
    found = board_table(board)
    nights = [path_of("experiments", one["experiment_id"]) if one["experiment_id"] else None for one in board["nights"]]
    rows = [
        [
            Cell(line[0]),
            *(
                Cell(_SAID[sign], href, f"mark {COLOURS[sign]} {_SAID[sign]}")
                for sign, href in zip(line[1:], nights, strict=True)
            ),
        ]
        for line in found.rows
    ]
    heads = [Head(text, False) for text in found.headers]
    notes = [note.partition(" ")[2] for note in found.notes] if found.rows else found.notes  # without their letter
    return Grid(f"The last nights of {board['schedule']}", heads, rows, found.common, notes)


def devices_grid(nodes: Sequence[Json], holding: Sequence[Json]) -> Grid:
    """The devices of all nodes, and the run that holds each."""
    held = {
        (share["node"], device["id"]): run
        for run in holding
        for share in run["placement"] or ()
        for device in share["devices"]
    }
    lines, hrefs = [], []
    for node in nodes:
        for device in node["devices"]:
            run = held.get((node["name"], device["id"]))
            what = f"{run['plan']['model']} {run['plan']['framework']}, {run['state']}" if run else "free"
            lines.append([node["name"], node["state"], device["id"], device["name"], what])
            hrefs.append(path_of("runs", run["id"]) if run else None)
    table = Table("", ["node", "state", "device", "what it is", "used by"], lines, [])
    return grid(table, "Devices and what uses them", {"used by": hrefs})
