"""Prints what the profiling phases of a run have found, for a person."""

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.cli.printing import output
from orchestrator.reports.drawing import table
from orchestrator.reports.tables.profile_tables import MOST_ROWS, kernel_changes_table, profile_tables
from orchestrator.reports.tables.results_table import Table

__all__ = ["MOST_ROWS", "print_kernel_changes", "print_profile"]
Json = Mapping[str, Any]

_LONGEST_NAME = 60  # judgements: C++ names go on for lines, and less than the other says nothing
_SHORTEST_NAME = 24


def print_profile(name: str, answer: Json, most: int | None) -> None:
    """Print REST's answer for a profile; of its rows the ``most`` important, None for all."""
    if answer["reason"]:
        print(f"no profile of {name}: {answer['reason']}")
    for number, found in enumerate(profile_tables(name, answer, most)):
        if number:
            print()
        _print(found)


def print_kernel_changes(answer: Json, most: int | None) -> None:
    """Print the kernels of two runs that differ, the largest difference first."""
    if answer["reason"]:
        print(f"the kernels cannot be compared: {answer['reason']}")
    else:
        _print(kernel_changes_table(answer, most))


def _print(found: Table) -> None:
    if found.common:
        print(found.common)
    _table(found.headers, found.rows)
    for note in found.notes:
        output.print_dim(note)


def _short(name: str, longest: int = _LONGEST_NAME) -> str:
    name = name.replace("\n", " ")
    return name if len(name) <= longest else name[: longest - 1] + "…"


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table whose first column is a name, cut where the screen is too narrow for it."""
    others = zip(headers[1:], *(row[1:] for row in rows), strict=True)
    width, longest = output.width(), _LONGEST_NAME
    if width is not None:
        room = width - sum(2 + max(len(cell) for cell in column) for column in others)
        longest = min(longest, max(_SHORTEST_NAME, room))
    print(table.text(headers, [[_short(row[0], longest), *row[1:]] for row in rows], width))
