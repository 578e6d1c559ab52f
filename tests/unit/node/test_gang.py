"""Which lines of a process are believed."""

import json

import pytest

from workers.node import gang


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
