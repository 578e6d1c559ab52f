"""Nodes of ``tbd exec`` meet: who is let in, what has to be the same on all, and what is told of who does not come."""

import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from workers.node import port_choice
from workers.node.own.meeting import Hall, Meeting, MeetingError

SECRET = "0123456789abcdef"
ASKED = {"--steps": 30, "axes": ("a", "b")}


class Place:
    """Two nodes or more on the loopback interface, which only a test may meet on."""

    def __init__(self) -> None:
        self.port = port_choice.free_port(host="127.0.0.1")
        self.said: list[str] = []

    def hall(self, node: str, asked: Any = None, secret: str = SECRET, count: int = 2) -> Hall:
        where = ("127.0.0.1", self.port)
        return Hall(where, count, node, ASKED if asked is None else asked, secret, self.said.append)

    def lead(self, limit_s: float, count: int = 2, meanwhile: Callable[[], Any] = lambda: None) -> Meeting:
        hall = self.hall("one", count=count)
        listener = hall.listener("127.0.0.1")
        assert listener is not None
        with listener:
            meanwhile()
            return hall.lead(listener, limit_s)

    def together(self, follow: Callable[[], Any], limit_s: float = 20.0) -> tuple[Any, Any]:
        """What comes of leading and of ``follow`` at the same time: a meeting, or why there is none."""
        found: list[Any] = []

        def other() -> None:
            try:
                found.append(follow())
            except MeetingError as error:
                found.append(str(error))

        thread = threading.Thread(target=other)
        try:
            leads: Any = self.lead(limit_s, meanwhile=thread.start)
        except MeetingError as error:
            leads = str(error)
        thread.join()
        return leads, found[0]


@pytest.fixture
def place() -> Place:
    return Place()


def test_nodes_that_met_say_what_comes_which_ranks_they_have_and_how_they_ended(place: Place, tmp_path: Path) -> None:
    one, two = place.together(lambda: place.hall("two").follow(20.0))
    assert (one.nodes, two.nodes, one.number, two.number) == (["one", "two"], ["one", "two"], 0, 1)
    one.begin({"cell": 3})
    assert two.next_run() == {"cell": 3}
    two.say(told={"ranks": [1]})
    one.say(ended={"kind": "crashed", "message": "x"})
    (tmp_path / "log").write_bytes(b"\x00{}\n" * 30_000)
    two.say(ended=None)
    two.send_log(tmp_path / "log")
    assert one.logs() == [b"\x00{}\n" * 30_000]
    assert (one.told, one.ended) == ({"two": {"ranks": [1]}}, {"two": None})
    two.hear(None)
    assert two.ended["one"]["kind"] == "crashed"
    one.begin({"cell": 4})
    assert (two.next_run(), two.ended) == ({"cell": 4}, {})
    one.close()
    with pytest.raises(MeetingError, match="node one, which leads, has gone"):
        two.next_run()


@pytest.mark.parametrize(
    ("node", "asked", "secret", "here", "there"),
    [
        ("two", {"--steps": 40, "axes": ("a", "b")}, SECRET, "--steps is 40 on node two, and 30 on one", "--steps is"),
        ("one", None, SECRET, "two nodes are called one", "two nodes are called one"),
        ("two", None, "another secret!!", "127.0.0.1 was sent away, which knows another secret", "knows another"),
    ],
)
def test_who_does_not_belong_is_not_let_in_and_both_say_why(
    node: str, asked: Any, secret: str, here: str, there: str, place: Place
) -> None:
    limit_s = 20.0 if secret == SECRET else 0.5  # the right one may still come
    leads, follows = place.together(lambda: place.hall(node, asked, secret).follow(20.0), limit_s)
    assert here in leads
    assert there in follows


def test_a_stranger_keeps_nobody_out(place: Place) -> None:
    def follow() -> Any:
        for line in (b"", b"garbage\n", b'{"nonce": "0", "node": "two", "proof": "0"}\n'):
            connection = socket.create_connection(("127.0.0.1", place.port))
            connection.sendall(line)
            kept.append(connection)
        return place.hall("two").follow(20.0)

    kept: list[socket.socket] = []
    leads, follows = place.together(follow)
    assert leads.nodes == follows.nodes == ["one", "two"]
    for connection in kept:
        connection.close()


def test_who_is_missing_is_said(place: Place) -> None:
    with pytest.raises(MeetingError, match=r"2 of 3 nodes did not come to .* within 0.2 s; here: one"):
        place.lead(0.2, count=3)
    with pytest.raises(MeetingError, match=r"no tbd exec could be reached at .* Connection refused"):
        place.hall("two").follow(0.1)


def test_what_listens_there_and_does_not_know_the_secret_is_not_followed(place: Place) -> None:
    with socket.create_server(("127.0.0.1", place.port)) as server:
        follows: list[Any] = []
        thread = threading.Thread(target=lambda: follows.append(_problem(place.hall("two"))))
        thread.start()
        connection, _ = server.accept()
        connection.sendall(b'{"nonce": "1"}\n{"proof": "2"}\n{"nodes": ["one", "two"]}\n')
        thread.join()
        connection.close()
    assert "does not know the secret" in follows[0]


def _problem(hall: Hall) -> str:
    with pytest.raises(MeetingError) as found:
        hall.follow(20.0)
    return str(found.value)


def test_an_address_that_cannot_be_met_at_is_refused(place: Place) -> None:
    with pytest.raises(MeetingError, match=r"127.0.0.1 here, where no other node gets to"):
        place.hall("one").meet()
    with socket.create_server(("127.0.0.1", place.port)), pytest.raises(MeetingError, match=r"--meet another port"):
        place.hall("one").listener("127.0.0.1")
    assert place.hall("one").listener("192.0.2.1") is None
