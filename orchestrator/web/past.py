"""History of workloads, comparisons of experiments or runs, and the paper's observations."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from starlette.responses import Response

from orchestrator.api.requests import MAX_PAGE
from orchestrator.reports.figures import compared as compared_figure
from orchestrator.reports.figures import history as history_figure
from orchestrator.reports.tables.comparison import sides_table
from orchestrator.reports.tables.history import findings_table, history_table, series_table, workload_text
from orchestrator.reports.tables.observations import observations_table
from orchestrator.web.figures import pictures
from orchestrator.web.grid import grid
from orchestrator.web.lists import Filter, listing
from orchestrator.web.page import Asked, Page
from orchestrator.web.rest import Refused, path_of, twin_of

Json = Mapping[str, Any]
# Judgements: things beside the first one, and points of a series unless the URL asks for more: all of them are judged
# together, which takes a second for a thousand.
MOST_COMPARED, MOST_POINTS = 100, 100
_IDS = ("run_", "exp_")
_SERIES = (
    *(Filter("model", "model"), Filter("framework", "framework"), Filter("gpu_model", "GPU")),
    *(Filter("series", "key begins with"), Filter("experiment", "experiment")),
    *(Filter("owner", "owner"), Filter("label", "label (key=value)")),
)


async def history(asked: Asked) -> Page | Response:
    """The series that there are."""
    found = await asked.rest.get("/history", **asked.query)

    def content() -> Json:
        hrefs = {"series": [path_of("history", one["key"]) for one in found["items"]]}
        return listing(asked, found, _SERIES, grid(series_table(found["items"]), "Series", hrefs))

    return Page("list.html", "History", content, twin_of("/history", asked.query))


async def series(asked: Asked) -> Page | Response:
    """One series: its points, its baselines, and what is said of their borders."""
    path = path_of("history", asked.id("series"))
    found = await asked.rest.get(path, **{"limit": MOST_POINTS, **asked.query})

    def content() -> Json:
        is_ours = [one["source"] is None for one in found["items"]]
        hrefs = [
            path_of("experiments", one["experiment_id"]) if ours else None
            for one, ours in zip(found["items"], is_ours, strict=True)
        ]
        tried = [path_of("experiments", of) if (of := one["experiment_id"]) else None for one in found["findings"]]
        return {
            "workload": workload_text(found["workload"]),
            "findings": grid(findings_table(found), "Changes of level", {"state": tried}),
            "pictures": pictures(_figure(found)),
            "grid": grid(history_table(found), "Points, the oldest first", {"experiment": hrefs}),
            "more": asked.at(limit=str(MAX_PAGE)) if found["n_left_out"] and "limit" not in asked.query else None,
        }

    return Page("series.html", f"Series {found['key']}", content, twin_of(path, asked.query))


def _figure(found: Json) -> Iterator[Json]:
    with suppress(ValueError):  # no point has a number
        yield history_figure.figure(found)


async def compare(asked: Asked) -> Page | Response:
    """Experiments or runs against the first one (``of``, repeated; ids, or names of experiments)."""
    wanted = [text.strip() for text in asked.request.query_params.getlist("of") if text.strip()]
    ids = [one if one.startswith(_IDS) else await _named(asked, one) for one in wanted[: MOST_COMPARED + 1]]
    found = await asked.rest.get("/comparisons", of=ids) if ids else {"things": [], "items": []}

    def content() -> Json:
        things, left_out = found["things"], len(wanted) - len(ids)
        names = [one["name"] for one in things]
        told = list(zip(names[1:], found["items"], strict=True))
        return {
            "wanted": [*wanted, "", ""][: max(2, len(wanted) + 1)],
            "things": [(one, *_leads(one)) for one in things],
            "pictures": pictures(_compared_figure(things, found["items"])),
            "compared": [grid(sides_table(one), f"A: {names[0]}; B: {name}") for name, one in told],
            "left_out": f"{left_out} more are left out" if left_out else "",
        }

    return Page("compare.html", "Compare", content, twin_of("/comparisons", {"of": ids}) if ids else None)


def _leads(thing: Json) -> tuple[str, str | None]:
    """Where its page is, and its history."""
    if not thing["id"].startswith("run_"):
        return path_of("experiments", thing["id"]), f"/history?experiment={thing['id']}"
    return path_of("runs", thing["id"]), path_of("history", thing["series"]) if thing["series"] else None


def _compared_figure(things: Sequence[Json], items: Sequence[Json]) -> Iterator[Json]:
    names = [one["id"] if one["id"].startswith("run_") else one["name"] for one in things]  # a line has little room
    with suppress(ValueError):  # nothing can be drawn
        if items:
            yield compared_figure.figure(names[0], list(zip(names[1:], items, strict=True)))


async def _named(asked: Asked, text: str) -> str:
    found = (await asked.rest.get("/lookup", text=text, limit=20))["items"]
    experiments = [one for one in found if one["kind"] == "experiment"]
    if len(experiments) != 1:
        several = ", ".join(one["id"] for one in experiments) or "nothing"
        raise Refused(422, {"detail": f"{text!r} stands for {several}: write the id", "type": "invalid-request"})
    return str(experiments[0]["id"])


async def observations(asked: Asked) -> Page | Response:
    """The paper's observations, judged by all results."""
    found = (await asked.rest.get("/observations"))["items"]

    def content() -> Json:
        return {"grid": grid(observations_table(found), "Observations 1 to 12 of the TBD paper")}

    return Page("observations.html", "Observations", content, twin_of("/observations"))
