"""A log that is being imported: its entries stand in a file, and are read from there as often as they are looked at."""

from array import array
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, overload

from orchestrator.domain import border
from orchestrator.domain.ports import Entry


class LogFile(Sequence[Entry]):
    """Entries by their place, each a line of ``file``.

    Args:
        file: holds JSON objects that ``border.parse_entry`` reads, a line each; stays the caller's to close.
        starts: where each entry begins, in bytes.
        digest: a name of the contents.
    """

    def __init__(self, file: BinaryIO, starts: "array[int]", digest: str) -> None:
        self._file = file
        self._starts = starts
        self.digest = digest

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, index: int) -> Entry: ...
    @overload
    def __getitem__(self, index: slice) -> list[Entry]: ...
    def __getitem__(self, index: int | slice) -> Entry | list[Entry]:
        if isinstance(index, slice):
            return [self._at(start) for start in self._starts[index]]
        return self._at(self._starts[index])

    def __iter__(self) -> Iterator[Entry]:
        """Several may go on side by side: each finds its own place again."""
        return (self._at(start) for start in self._starts)

    def _at(self, start: int) -> dict[str, Any]:
        if self._file.tell() != start:
            self._file.seek(start)
        entry: dict[str, Any] = border.reread_entry(self._file.readline())
        return entry
