"""Which lines of a process are believed, and that all of them are heard."""

import json
import subprocess
import sys

import pytest

from workers.node import children, gang
from workers.node.event_log import EventLog


def line(**changes):
    event = {"t": 1.0, "wall": 2.0, "kind": "loss", "rank": 0, "data": {"step": 1, "value": 0.5}, **changes}
    return json.dumps(event).encode()


def test_an_event_of_the_protocol_is_believed_and_cannot_number_itself():
    event = gang._parse(line(seq=99, source="agent"), [0])
    assert sorted(event) == ["data", "kind", "rank", "t", "wall"]


@pytest.mark.parametrize(
    "text",
    [
        b"not json",
        b"\xff\xfe",
        b"",
        b"[]",
        b"17",
        line(kind="party"),
        line(data={"step": 1}),
        line(t=None),
        line(kind="log_closed", data={"entries": 1, "failure": None}),
        line(kind="reading", data={"window_s": 1, "values": []}),
        line(rank=3),
    ],
)
def test_anything_else_is_garbage(text):
    assert gang._parse(text, [0, 1]) is None


def test_every_kind_that_a_process_may_write_is_known_to_the_protocol():
    assert set(gang.protocol.EVENTS) > gang._AGENT_KINDS
    assert {"started", "interval", "finished", "error"}.isdisjoint(gang._AGENT_KINDS)


def test_all_that_a_process_has_said_is_heard_at_its_end_however_long_a_line_is(tmp_path):
    path, long = tmp_path / "events", "x" * (3 << 20)
    said = [
        line(data={"step": 1, "value": 0.5, "note": long}),
        line(kind="finished", data={"steps": 1, "weights_sha256": None}),
    ]
    path.write_bytes(b"".join(one + b"\n" for one in said))
    ended = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    ended.wait()
    one = gang.Gang({"token": "secret"}, [], tmp_path, EventLog(tmp_path / "log"), children.Spawner())
    one.children.append(children.Child({"name": "worker0", "role": "worker", "ranks": [0]}, ended, path))
    (found,) = one.exits()
    assert (found.finished, found.torn) == (True, False)
