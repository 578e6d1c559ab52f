"""What the regression gate would have tried, night by night, as a table."""

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.reports.numbers import short_time
from orchestrator.reports.tables.results_table import Table

Json = Mapping[str, Any]
HEADERS = ["night (UTC)", "series", "place", "since (UTC)", "kind", "difference", "coincides with"]


def replay_table(items: Sequence[Json], names: Mapping[str, str], told: str) -> Table:
    """One line a candidate; of those that may have one cause only the first has the night.

    Args:
        items: as ``tbd alerts replay --json`` prints them.
        names: what a series is called, where that is not its key.
        told: what was looked at, in words.
    """
    rows: list[list[str]] = []
    causes: dict[int, str] = {}
    for item in items:
        rows.append(
            [
                "" if item["cause"] in causes else short_time(item["called_at"]),
                names.get(item["series"], item["series"]),
                item["place"],
                short_time(item["at"]),
                item["kind"],
                f"{item['difference']:+.1%}",
                f"{item['before']} → {item['after']}" if item["before"] != item["after"] else "",
            ]
        )
        causes.setdefault(item["cause"], item["kind"])
    kinds = list(causes.values())
    note = f"{told}: {kinds.count('step')} would have been tried side by side; drifts, which are not: "
    return Table("", HEADERS, rows, [f"{note}{kinds.count('drift')}."])
