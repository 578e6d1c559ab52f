"""The one log of a node and an attempt: numbering, reopening, acknowledging, a full disk."""

import errno
import json
import os
import threading

import pytest

from workers.node import event_log
from workers.node.event_log import EventLog, LogError
from workers.trainer import protocol


def opened(tmp_path, changed=None):
    return EventLog(tmp_path / "log.jsonl", changed)


def garbage(log, text):
    return log.append("garbage", process="w", text=text)


def test_entries_are_numbered_from_one_without_a_gap(tmp_path):
    log = opened(tmp_path)
    assert [garbage(log, "x") for _ in range(3)] == [1, 2, 3]
    assert [entry["seq"] for entry in log.slice(0, 10)] == [1, 2, 3]


def test_entries_of_several_threads_are_whole_lines_and_numbered_in_file_order(tmp_path):
    log = opened(tmp_path)
    threads = [threading.Thread(target=lambda: [garbage(log, "y" * 500) for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["seq"] for line in lines] == list(range(1, 201))


def test_events_of_a_process_keep_their_own_clocks_and_name_their_source(tmp_path):
    log = opened(tmp_path)
    event = dict(protocol.event("loss", {"step": 1, "value": 0.5}, rank=0), t=12.5)
    log.extend([event], "worker0")
    (entry,) = log.slice(0, 1)
    assert (entry["source"], entry["t"], entry["rank"]) == ("worker0", 12.5, 0)
    protocol.check_event(entry)


def test_a_slice_begins_after_the_number_given_and_obeys_the_limit(tmp_path):
    log = opened(tmp_path)
    for index in range(10):
        garbage(log, str(index))
    assert [entry["seq"] for entry in log.slice(4, 3)] == [5, 6, 7]
    assert log.slice(10, 3) == []
    assert log.slice(99, 3) == []
    assert [entry["seq"] for entry in log.slice(-5, 2)] == [1, 2]


def test_reopening_drops_a_torn_last_line_and_goes_on_numbering(tmp_path):
    log = opened(tmp_path)
    garbage(log, "a")
    garbage(log, "b")
    log.release()
    with open(tmp_path / "log.jsonl", "ab") as file:
        file.write(b'{"seq":3,"kind":"garb')
    again = opened(tmp_path)
    assert again.last_seq == 2
    assert garbage(again, "c") == 3
    assert [json.loads(line)["seq"] for line in (tmp_path / "log.jsonl").read_text().splitlines()] == [1, 2, 3]


def test_a_closed_log_says_how_many_entries_it_has_and_takes_no_more(tmp_path):
    log = opened(tmp_path)
    garbage(log, "a")
    log.close(None)
    log.close({"kind": "crashed"})
    assert log.slice(1, 10)[0]["data"] == {"entries": 2, "failure": None}
    assert log.last_seq == 2
    with pytest.raises(LogError):
        garbage(log, "b")


def test_a_closed_log_is_still_closed_when_it_is_opened_again_and_says_since_when(tmp_path, monkeypatch):
    """An agent that did not close it goes by the clock that tells the time, which may have been put back."""
    awake = [100.0]
    monkeypatch.setattr(event_log, "boottime", lambda: awake[0])
    log = opened(tmp_path)
    assert log.closed_for_s() is None
    log.close(None)
    (closed,) = log.slice(0, 1)
    log.release()
    awake[0] = 107.0
    assert log.closed_for_s() == 7.0
    for passed_s, told_s in ((30.0, 30.0), (-30.0, 0.0)):
        monkeypatch.setattr(event_log.time, "time", lambda now=closed["wall"] + passed_s: now)
        again = opened(tmp_path)
        assert (again.closed, again.closed_for_s()) == (True, pytest.approx(told_s))
        again.release()


def test_the_acknowledged_position_survives_and_never_moves_back(tmp_path):
    log = opened(tmp_path)
    for _ in range(5):
        garbage(log, "a")
    assert log.acknowledge(4) == 4
    assert log.acknowledge(2) == 4
    assert log.acknowledge(99) == 5
    log.release()
    assert opened(tmp_path).acknowledged == 5


def test_a_log_is_deletable_only_when_it_is_closed_and_acknowledged_to_its_end(tmp_path):
    log = opened(tmp_path)
    garbage(log, "a")
    log.acknowledge(1)
    assert not log.deletable
    log.close(None)
    assert not log.deletable
    log.acknowledge(2)
    assert log.deletable


def test_everyone_waiting_is_told_after_entries_were_added(tmp_path):
    seen = []
    log = opened(tmp_path, lambda: seen.append(log.state()))
    garbage(log, "a")
    log.close(None)
    assert seen == [(1, False), (2, True)]


def full_disk(monkeypatch, after_bytes=0):
    def write(descriptor, data):
        if len(data) <= after_bytes:
            return real(descriptor, data)
        real(descriptor, data[: after_bytes or 3])
        raise OSError(errno.ENOSPC, "No space left on device")

    real = os.write
    monkeypatch.setattr(os, "write", write)


def test_a_full_disk_raises_and_leaves_no_half_line(tmp_path, monkeypatch):
    log = opened(tmp_path)
    garbage(log, "a")
    with monkeypatch.context() as patch:
        full_disk(patch)
        with pytest.raises(LogError, match="no space left on the disk"):
            garbage(log, "b")
    assert log.last_seq == 1
    assert garbage(log, "c") == 2
    assert [entry["data"]["text"] for entry in log.slice(0, 9)] == ["a", "c"]


def test_the_end_can_be_told_even_when_the_disk_stays_full(tmp_path, monkeypatch):
    log = opened(tmp_path)
    garbage(log, "a")
    full_disk(monkeypatch)
    log.close({"kind": "crashed"}, [protocol.event("garbage", {"process": "w", "text": "z"})])
    entries, last_seq, closed = log.view(0, 10)
    assert [entry["kind"] for entry in entries] == ["garbage", "garbage", "log_closed"]
    assert (last_seq, closed, entries[-1]["data"]["entries"]) == (3, True, 3)
    assert [entry["seq"] for entry in log.slice(1, 1)] == [2]


def test_room_for_the_end_is_kept_while_the_log_is_open_and_given_back(tmp_path):
    log = opened(tmp_path)
    reserve = tmp_path / "log.jsonl.reserve"
    assert reserve.stat().st_blocks * 512 >= 64 * 1024
    log.close(None)
    assert not reserve.exists()
