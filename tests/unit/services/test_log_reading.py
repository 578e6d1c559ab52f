"""A log that is imported is read once, an entry at a time, and written down as it will be stored."""

import json
import tempfile
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

import pytest

from orchestrator.domain.words import untrusted
from orchestrator.domain.words.errors import InvalidRequest, TbdError
from orchestrator.services.facts.catalog import load_catalog
from orchestrator.services.intake import log_process, log_reading
from tests.replays import replay

KINDS = load_catalog().kernel_kinds


@contextmanager
def two_files(log: bytes) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """One with the log, and one for the rows."""
    with tempfile.TemporaryFile() as file, tempfile.TemporaryFile() as rows:
        file.write(log)
        yield file, rows


def refused(log: bytes) -> tuple[str, str]:
    with two_files(log) as files, pytest.raises((InvalidRequest, untrusted.Malformed)) as found:
        log_process.read_politely(*files, KINDS)
    return type(found.value).__name__, str(found.value)


def test_what_is_written_down_is_the_log_with_the_node_left_out_of_each_entry() -> None:
    entries = [one | {"node": "vm"} for one in replay.entries_of("good_sleep")]
    with two_files("\n".join(map(json.dumps, entries)).encode()) as (file, rows):
        log_reading.read(file, rows, KINDS)
        lines = list(log_reading.stored_lines(rows))
    assert [line.seq for line in lines] == list(range(1, len(entries) + 1))
    assert [line.kind for line in lines] == [one["kind"] for one in entries]
    assert [json.loads(line.body) for line in lines] == replay.entries_of("good_sleep")


def test_a_log_in_a_file_is_analysed_as_one_in_memory() -> None:
    with two_files(replay.raw("good_sleep")) as files:
        assert log_reading.read(*files, KINDS).analysis == replay.analysed(replay.entries_of("good_sleep"))


def test_a_process_of_its_own_reads_the_same_as_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    with two_files(replay.raw("steady_pytorch")) as (file, rows):
        here = log_process.read_politely(file, rows, KINDS)
        written_here = list(log_reading.stored_lines(rows))
    monkeypatch.setattr(log_process, "APART_BYTES", 0)
    monkeypatch.setattr(log_reading, "read", None)
    with two_files(replay.raw("steady_pytorch")) as (file, rows):
        assert log_process.read_politely(file, rows, KINDS) == here
        assert list(log_reading.stored_lines(rows)) == written_here


def of_two_nodes(**other: str) -> bytes:
    """The log of one attempt from node one, and the same from node two; ``other``: what its beginning says instead."""
    entries = replay.entries_of("good_sleep")
    for process in entries[0]["data"]["job"]["processes"]:
        process["node"] = "one"
    logs = [[entries[0] | {"data": entries[0]["data"] | {"node": "one"}}, *entries[1:]]]
    logs.append([entries[0] | {"data": entries[0]["data"] | {"node": "two"} | other}, *entries[1:]])
    return b"".join(json.dumps(one).encode() + b"\n" for log in logs for one in log)


def test_the_logs_of_an_attempt_on_two_nodes_stand_one_behind_the_other() -> None:
    count = len(replay.entries_of("good_sleep"))
    with two_files(of_two_nodes()) as (file, rows):
        told = log_reading.read(file, rows, KINDS)
        assert told.entries == {"one": count, "two": count}
        lines = list(log_reading.stored_lines(rows, count, count))
    assert [line.seq for line in lines] == list(range(1, count + 1))
    assert [json.loads(line.body) for line in lines][1:] == replay.entries_of("good_sleep")[1:]
    assert refused(of_two_nodes(run_id="run_x"))[1].startswith(f"/{count}/data/attempt_id: behind a log of another")
    assert f"/{count}/data/node: a second log of node one" in refused(of_two_nodes(node="one"))[1]
    first, _, rest = of_two_nodes().partition(b"\n")
    torn = first + b"\n" + rest.replace(b'"seq": 3,', b'"seq": 4,')
    assert "entry 3 should be" in refused(torn)[1]


@pytest.mark.parametrize(
    ("told", "kind"), [({"kind": "node_lost", "message": "two has gone"}, "node_lost"), (None, "invalid_log")]
)
def test_a_node_whose_log_is_missing_was_lost_if_another_one_says_so(told: dict[str, str] | None, kind: str) -> None:
    entries = replay.entries_of("good_sleep")
    entries[0]["data"]["job"]["processes"].append({**entries[0]["data"]["job"]["processes"][0], "node": "two"})
    entries[-1]["data"]["failure"] = told
    with two_files("\n".join(map(json.dumps, entries)).encode()) as files:
        failure = log_reading.read(*files, KINDS).analysis.failure
    assert failure is not None
    assert failure.kind == kind


@pytest.mark.parametrize("spoiled", [b"{", b'{"seq": 3, "kind": "nothing"}\n', b"[]\n", b'{"a": "\\ud800"}\n'])
@pytest.mark.after_change
def test_a_process_of_its_own_refuses_in_the_same_words(spoiled: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    log = b"".join(replay.raw("good_sleep").splitlines(keepends=True)[:2]) + spoiled + b"\n"
    here = refused(log)
    monkeypatch.setattr(log_process, "APART_BYTES", 0)
    assert refused(log) == here


def test_a_process_that_ends_without_an_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_process, "APART_BYTES", 0)
    monkeypatch.setattr(log_process.sys, "executable", "/bin/false")  # type: ignore[attr-defined]
    with two_files(b"{}") as files, pytest.raises(TbdError, match="ended with status 1; nothing was stored"):
        log_process.read_politely(*files, KINDS)


def test_looking_at_every_line_holds_one_of_them() -> None:
    lines = replay.raw("good_sleep").splitlines(keepends=True)
    output = {"seq": 0, "t": 1.0, "wall": 1.0, "rank": None, "kind": "output", "data": {"text": "é" * 1000}}
    body = b"".join(json.dumps(output | {"seq": seq}).encode() + b"\n" for seq in range(2, 2000))
    with two_files(lines[0] + body) as (file, rows):
        file.seek(0)
        tracemalloc.start()
        assert sum(1 for _ in log_reading._Lines(file, rows)) == 1999
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 200_000
