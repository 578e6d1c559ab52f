"""A device as a table: how it is, and what happened to it."""

from collections.abc import Mapping
from typing import Any

from orchestrator.domain.words.untrusted import visible
from orchestrator.reports.numbers import NOTHING, short_time
from orchestrator.reports.tables.results_table import Table


def device_table(record: Mapping[str, Any]) -> Table:
    """One line per event, newest first; above them the state with its reasons."""
    number = f" {record['number']}" if record["number"] else ""
    health = record["health"]
    title = [f"{record['node']}, device{number}: {record['name'] or 'not there now'}, {record['device']}"]
    title += [": ".join([health["state"], "; ".join(health["reasons"])]) if health["reasons"] else health["state"]]
    rows = [
        [
            short_time(event["at"]),
            event["kind"],
            visible(event["text"]),
            event["run_id"] or NOTHING,
            short_time(event["ended_at"]) if event["ended_at"] else "counts",
        ]
        for event in record["events"]["items"]
    ]
    counting = {event["kind"] for event in record["events"]["items"] if not event["ended_at"]} - {"ailment"}
    way_out = "after a reset, or once the cause is known: tbd nodes clear"
    notes = [f"{way_out} {record['node']}/{record['number'] or record['device']}"] if counting else []
    return Table("\n".join(title), ["when (UTC)", "what", "", "run", "counts until"], rows, notes)
