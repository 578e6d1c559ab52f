"""Tables that others made, as CSV.

A first line names the columns, in any order; others than those that are asked for are passed over.
"""

import csv
from collections.abc import Iterator, Sequence

MOST_ROWS = 1_000_000  # judgements: beyond these it is another kind of file
MOST_LINE = 10_000


class TableError(ValueError):
    """A table that cannot be used. ``line``: where, from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def rows(text: str, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield (line from 1, its values by the names of the first line); empty lines are passed over.

    Raises:
        TableError: one of ``columns`` is not there or there twice, a line has more or fewer values or is no CSV, there
            is no row, or more than ``MOST_ROWS``.
    """
    lines = text.split("\n", MOST_ROWS + 1)
    if len(lines) > MOST_ROWS + 1:
        raise TableError(f"there are more than {MOST_ROWS} rows", MOST_ROWS + 2)
    header = _cells(lines[0], 1)
    wrong = [
        f"{one} stands there twice" if one in header else f"there is no {one}"
        for one in columns
        if header.count(one) != 1
    ]
    if wrong:
        raise TableError(f"the first line has to name the columns {', '.join(columns)}: {'; '.join(wrong)}", 1)
    is_empty = True
    for number, line in enumerate(lines[1:], 2):
        if not line.strip():
            continue
        cells = _cells(line, number)
        if len(cells) != len(header):
            raise TableError(f"there are {len(cells)} values for {len(header)} columns", number)
        is_empty = False
        yield number, dict(zip(header, cells, strict=True))
    if is_empty:
        raise TableError("there is no row below it", 1)


def _cells(line: str, number: int) -> list[str]:
    if len(line) > MOST_LINE:
        raise TableError(f"the line has more than {MOST_LINE} characters", number)
    try:
        return [cell.strip() for cell in next(csv.reader([line.rstrip("\r")], strict=True), [])]
    except csv.Error as error:
        raise TableError(f"this is no line of a CSV file: {error}", number) from None
