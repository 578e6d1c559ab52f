"""Nodes with their calibrations over time, schedules with what became of their times, and orders to both."""

import secrets
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from orchestrator.reports.tables.lists import calibrations_table, fires_table, nodes_table, schedules_table, zoned_text
from orchestrator.web.grid import grid
from orchestrator.web.lists import Filter, listing
from orchestrator.web.page import Asked, Page, moved
from orchestrator.web.rest import path_of, twin_of

Json = Mapping[str, Any]
_ORDERS = {"drain": "Drain: no new runs", "quarantine": "Quarantine: results are not believed", "resume": "Resume"}
_SCHEDULES = (Filter("name", "name"), Filter("owner", "owner"), Filter("paused", "paused", ("true", "false")))
_FIRES = (Filter("state", "became", ("submitted", "waiting", "skipped", "missed", "refused")),)


async def nodes(asked: Asked) -> Page | Response:
    """The nodes, and how fast their devices were found to be."""
    found = (await asked.rest.get("/nodes"))["items"]
    node = asked.query.get("node")
    calibrated = await asked.rest.get("/calibrations", node=node, cursor=asked.query.get("cursor"))

    def content() -> Json:
        items = calibrated["items"]
        hrefs = {"node": [asked.at(node=one["name"]) for one in found]}
        more = {"run": [path_of("runs", one["run_id"]) for one in items]}
        following = calibrated["next_cursor"]
        return {
            "nodes": grid(nodes_table(found), "Nodes", hrefs),
            "orders": [(one["name"], [(o, text) for o, text in _ORDERS.items() if _is_new(o, one)]) for one in found],
            "calibrations": grid(calibrations_table(items), "Calibrations", more),
            "node": node,
            "all": asked.at(node=None),
            "following": asked.at(cursor=following) if following else None,
        }

    return Page("nodes.html", "Nodes", content, twin_of("/nodes"))


def _is_new(order: str, node: Json) -> bool:
    ordered = {"draining": "drain", "quarantined": "quarantine"}.get(node["state"], "resume")
    return order != ordered


async def order_node(asked: Asked) -> Page | Response:
    """Drain, quarantine or resume a node."""
    if asked.form.get("order") in _ORDERS:
        await asked.rest.post(path_of("nodes", asked.form.get("node", ""), asked.form["order"]))
    return moved("/nodes")


async def schedules(asked: Asked) -> Page | Response:
    """Schedules, with their last and next times."""
    found = await asked.rest.get("/schedules", **asked.query)

    def content() -> Json:
        hrefs = {"schedule": [path_of("schedules", one["id"]) for one in found["items"]]}
        table = grid(schedules_table(found["items"]), "Schedules", hrefs)
        return listing(asked, found, _SCHEDULES, table)

    return Page("list.html", "Schedules", content, twin_of("/schedules", asked.query))


async def schedule(asked: Asked) -> Page | Response:
    """One schedule: its next times, and what became of those before."""
    path = path_of("schedules", asked.id("schedule_id"))
    found = await asked.rest.get(path)
    fires = await asked.rest.get(f"{path}/fires", **asked.query)

    def content() -> Json:
        ids = [one["experiment_id"] for one in fires["items"]]
        made = [path_of("experiments", one) if one else None for one in ids]
        table = grid(fires_table(found, fires["items"]), "Times", {"experiment, or why not": made})
        facts = [
            ("schedule", f"{found['id']}  of {found['owner']}"),
            ("times", f"{found['cron']}  {found['timezone']}" + (", paused" if found["paused"] else "")),
            ("next", ", ".join(zoned_text(time, found) for time in found["upcoming"])),
            ("if late", f"misfire {found['misfire']}, given up after {found['max_age_s']:g} s"),
            ("if one goes on", f"overlap {found['overlap']}"),
        ]
        told = {"schedule": found, "facts": facts, "key": secrets.token_hex(16), "board": _board(found)}
        return {**listing(asked, fires, _FIRES, table), **told}

    return Page("schedule.html", found["name"], content, twin_of(path))


def _board(found: Json) -> str:
    return twin_of("/nightly", {"schedule": found["id"]})


async def order_schedule(asked: Asked) -> Page | Response:
    """Run it now, pause it, or let it go on."""
    path, order = path_of("schedules", asked.id("schedule_id")), asked.form.get("order")
    if order == "run":
        fire = await asked.rest.post(f"{path}/run", key=asked.form.get("key") or None)
        return moved(path_of("experiments", fire["experiment_id"]))
    if order in ("pause", "resume"):
        await asked.rest.send("PATCH", path, {"paused": order == "pause"})
    return moved(path)
