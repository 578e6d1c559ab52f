"""A log that is imported stays in its file: as often as it is read, one entry at a time is in memory."""

import json
import tempfile
import tracemalloc
from array import array
from collections.abc import Iterator

import pytest

from orchestrator.services.log_file import LogFile
from tests.replays import replay

ENTRIES = 2000


@pytest.fixture
def log() -> Iterator[LogFile]:
    starts, start = array("Q"), 0
    with tempfile.TemporaryFile() as file:
        for number in range(ENTRIES):
            line = json.dumps({"seq": number, "text": "é" * 100}).encode() + b"\n"
            starts.append(start)
            start += len(line)
            file.write(line)
        yield LogFile(file, starts, "digest")


def test_entries_are_read_by_place_from_either_end_and_side_by_side(log: LogFile) -> None:
    assert len(log) == ENTRIES
    assert (log[0]["seq"], log[-1]["seq"], [one["seq"] for one in log[5:8]]) == (0, ENTRIES - 1, [5, 6, 7])
    assert all(one["seq"] == other["seq"] for one, other in zip(log, log, strict=True))


def test_reading_all_of_it_holds_one_entry(log: LogFile) -> None:
    tracemalloc.start()
    assert sum(one["seq"] for one in log) == ENTRIES * (ENTRIES - 1) / 2
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000


def test_a_log_in_a_file_is_analysed_as_one_in_memory() -> None:
    lines = replay.raw("good_sleep").splitlines(keepends=True)
    starts = array("Q", [sum(map(len, lines[:number])) for number in range(len(lines))])
    with tempfile.TemporaryFile() as file:
        file.writelines(lines)
        found = replay.analysed(LogFile(file, starts, "digest"))  # type: ignore[arg-type]
    assert found == replay.analysed(replay.entries_of("good_sleep"))
