"""Reads a CSV file, of the S-SGD model's or of nights; what is wrong with it is told by its name and line."""

from collections.abc import Callable
from typing import TypeVar

from orchestrator.cli.exits import CommandError

Table = TypeVar("Table")
MOST_BYTES = 64 * 2**20  # a judgement: 10^6 rows take half of it


def read(name: str, table_of: Callable[[str], Table]) -> Table:
    """Return ``table_of`` the text in the file ``name``.

    Raises:
        CommandError: it cannot be read, is too large or no UTF-8, or ``table_of`` raised a ``TableError``.
    """
    from orchestrator.analysis.csv_tables import TableError

    try:
        with open(name, "rb") as file:
            content = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: the name itself cannot be one
        raise CommandError(f"{name}: {getattr(error, 'strerror', None) or error}") from None
    if len(content) > MOST_BYTES:
        raise CommandError(f"{name}: it has more than {MOST_BYTES} bytes")
    try:
        return table_of(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise CommandError(f"{name}:{line}: this is not UTF-8") from None
    except TableError as error:
        raise CommandError(f"{name}:{error.line}: {error}") from None
