"""The TBD paper's observations and what the results say of them, as a table."""

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.reports.tables.results_table import Table

Json = Mapping[str, Any]
HEADERS = ["#", "the paper says", "answer", "because", "numbers"]


def observations_table(items: Sequence[Json]) -> Table:
    """One line per observation: what it says, whether it holds, and the numbers that say so; as REST answers them."""
    rows = [
        [str(one["number"]), one["says"], one["answer"].replace("_", " "), one["told"], "\n".join(one["numbers"])]
        for one in items
    ]
    return Table("", HEADERS, rows, [])
