"""Lists of experiments, runs and results: filtered, sorted and paged by REST; all of their state is in the URL."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from starlette.responses import Response

from orchestrator.domain.runs.run import ExperimentState, RunState
from orchestrator.reports.tables.lists import experiments_table, runs_table
from orchestrator.reports.tables.results_table import results_table
from orchestrator.web.grid import Grid, Link, grid
from orchestrator.web.page import Asked, Page
from orchestrator.web.rest import path_of, twin_of

Json = Mapping[str, Any]
_ORDERS = ("newest", "oldest")


@dataclass(frozen=True)
class Filter:
    """A field of the form above a list. ``offered``: its values, where these are a closed list."""

    name: str
    label: str
    offered: Sequence[str] = ()


_OWNER, _LABEL = Filter("owner", "owner"), Filter("label", "label (key=value)")
_MODEL, _FRAMEWORK = Filter("model", "model"), Filter("framework", "framework")
_ORDER = Filter("order", "first", _ORDERS)
_EXPERIMENTS = (Filter("state", "state", tuple(ExperimentState)), Filter("name", "name"), _OWNER, _LABEL, _ORDER)
_RUNS = (
    *(Filter("state", "state", tuple(RunState)), _MODEL, _FRAMEWORK),
    *(Filter("experiment", "experiment"), _OWNER, _LABEL, _ORDER),
)
_RESULTS = (_MODEL, _FRAMEWORK, Filter("gpu_model", "GPU"), _OWNER, _LABEL, _ORDER)


async def experiments(asked: Asked) -> Page | Response:
    """Experiments, of which several can be chosen to be compared."""
    found = await asked.rest.get("/experiments", **asked.query)

    def content() -> Json:
        items = found["items"]
        hrefs = {"experiment": [path_of("experiments", one["id"]) for one in items]}
        hrefs["runs"] = [f"/runs?experiment={one['id']}" for one in items]
        whole = grid(experiments_table(items), "Experiments", hrefs)
        return listing(asked, found, _EXPERIMENTS, replace(whole, chosen=[one["id"] for one in items]))

    return Page("list.html", "Experiments", content, twin_of("/experiments", asked.query))


async def runs(asked: Asked) -> Page | Response:
    """Runs, of whichever experiment; several can be chosen, too."""
    found = await asked.rest.get("/runs", **asked.query)

    def content() -> Json:
        hrefs = {"run": [path_of("runs", one["id"]) for one in found["items"]]}
        whole = grid(runs_table(found["items"]), "Runs", hrefs)
        return listing(asked, found, _RUNS, replace(whole, chosen=[one["id"] for one in found["items"]]))

    return Page("list.html", "Runs", content, twin_of("/runs", asked.query))


async def results(asked: Asked) -> Page | Response:
    """Cells, of whichever experiment."""
    found = await asked.rest.get("/results", **asked.query)

    def content() -> Json:
        return listing(asked, found, _RESULTS, results_grid(found["items"], "Results", with_experiment=True))

    return Page("list.html", "Results", content, twin_of("/results", asked.query))


def results_grid(rows: Sequence[Json], caption: str, with_experiment: bool = False) -> Grid:
    """The table of results. Its numbers of runs lead to these; ``with_experiment``: a column says of which it is."""
    table = results_table(rows)
    hrefs: dict[str, Sequence[str | None]] = {}
    if with_experiment:
        table.headers.insert(0, "experiment")
        for line, row in zip(table.rows, rows, strict=True):
            line.insert(0, row["experiment_name"])
        hrefs["experiment"] = [f"{path_of('experiments', row['experiment_id'])}#{row['cell_key']}" for row in rows]
    made_of = {"runs": [[Link(one, path_of("runs", one)) for one in row["run_ids"]] for row in rows]}
    return grid(table, caption, hrefs, made_of, [] if with_experiment else [row["cell_key"] for row in rows])


def listing(asked: Asked, found: Json, filters: Sequence[Filter], whole: Grid) -> Json:
    """What the template of a list shows. Filters that are on stand above it, each with a way to take it off."""
    known = {one.name: one.label for one in filters}
    on = [
        (known.get(name, name), value, asked.at(**{name: None}))
        for name, value in asked.query.items()
        if name not in ("cursor", "limit", "order")
    ]
    following = found["next_cursor"]
    return {
        "grid": whole,
        "filters": filters,
        "values": asked.query,
        "on": on,
        "following": asked.at(cursor=following) if following else None,
        "first": asked.at() if "cursor" in asked.query else None,
        "damaged": found["damaged"],
    }
