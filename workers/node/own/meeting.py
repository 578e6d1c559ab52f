"""Several nodes on each of which somebody has begun ``tbd exec`` of one training: who they are, and what they say.

The node that the address is one of listens there and leads; the others connect. Each end proves by HMAC-SHA256 (RFC
2104) over two random numbers that it knows the same secret, which itself does not travel. Nothing that is said is a
command or a path: the one that leads says which cell comes next, all say which ranks they have and how their part
ended, and the others send it their logs.
"""

from __future__ import annotations

import base64
import errno
import hmac
import ipaddress
import json
import secrets
import select
import socket
import time
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping

from workers.trainer.base.peer import HELLO_TIMEOUT_S, Peer

# Judgements: how long nodes wait for each other to begin, and at the end of a run; after how many seconds of silence a
# node that lost its power has gone (TCP's keep-alive asks three times); bytes of a log in one line.
MEET_S = 300.0
END_S = 60.0
_ASK_S = 5
_PART_BYTES = 32 * 1024
_RETRY_S = 0.2

Say = Callable[[str], Any]


class MeetingError(Exception):
    """The nodes do not come together, or one has gone; the message says which, and what to do."""


class Meeting:
    """This node's end.

    Attributes:
        leads: others connect to this one.
        node: its name; ``nodes`` are the names of all, the one that leads first.
        host: its own address, at which the others reach it.
        told: node -> what it has said of its ranks in this run (``jobs.Share``).
        ended: node -> how its part of this run ended: None, or {kind, message}.
        lost: nodes that have gone.
    """

    def __init__(self, node: str, host: str, leads: bool) -> None:
        self.node, self.host, self.leads = node, host, leads
        self.nodes = [node]
        self.told: dict[str, Any] = {}
        self.ended: dict[str, Any] = {}
        self.lost: list[str] = []
        self.over: dict[str, Any] | None = None
        self._peers: list[Peer] = []
        self._logs: dict[str, bytes] = {}
        self._whole: set[str] = set()
        self._run: dict[str, Any] | None = None

    @property
    def number(self) -> int:
        return self.nodes.index(self.node)

    def begin(self, run: Mapping[str, Any]) -> None:
        """Say, as the one that leads, what all nodes carry out next."""
        self._forget()
        self._send({"run": dict(run)})

    def next_run(self) -> dict[str, Any] | None:
        """Return what comes next; None where all is over (see ``over``).

        Raises:
            MeetingError: the one that leads has gone.
        """
        while self._run is None and self.over is None:
            if self.lost:
                raise MeetingError(f"node {self.lost[0]}, which leads, has gone: it says there why")
            self.hear(None)
        run, self._run = self._run, None
        return run

    def say(self, **message: Any) -> None:
        """Tell the others ``told`` or ``ended`` of this node's, or that all is ``over``."""
        self._send(message)

    def send_log(self, log: Path) -> None:
        """Send the whole log of this node's part to the one that leads."""
        content = log.read_bytes()
        for begin in range(0, len(content), _PART_BYTES):
            self._send({"log": base64.b64encode(content[begin : begin + _PART_BYTES]).decode("ascii")})
        self._send({"whole": True})

    def logs(self) -> list[bytes]:
        """Return the logs of the other nodes, in their order, without those of nodes that have gone or do not end."""
        deadline = time.monotonic() + END_S
        while not self._whole.issuperset(one.name for one in self._peers) and time.monotonic() < deadline:
            self.hear(1.0)
        return [self._logs[node] for node in self.nodes if node in self._whole]

    def hear(self, wait_s: float | None = 0.0) -> None:
        """Take in all that the others have said, after ``wait_s`` at most (None: for ever) if nothing has come yet."""
        while ready := select.select(self._peers, [], [], wait_s)[0]:
            wait_s = 0.0
            for peer in ready:
                for message in peer.read():
                    self._take(peer, message)
                if not peer.open:
                    peer.close()
                    self._peers.remove(peer)
                    self.lost.append(peer.name)

    def close(self) -> None:
        for peer in self._peers:
            peer.close()

    def _send(self, message: Mapping[str, Any], but: Peer | None = None) -> None:
        for peer in self._peers:
            if peer is not but:
                peer.send(dict(message))

    def _take(self, peer: Peer, message: dict[str, Any]) -> None:
        node = str(peer.name if self.leads else message.get("node", peer.name))
        if "told" in message:
            self.told[node] = message["told"]
        elif "ended" in message:
            self.ended[node] = message["ended"]
        elif "log" in message:
            self._logs[node] = self._logs.get(node, b"") + base64.b64decode(message["log"])
        elif "whole" in message:
            self._whole.add(node)
        elif not self.leads and "run" in message:
            self._forget()
            self._run = message["run"]
        elif not self.leads and "over" in message:
            self.over = message["over"]
        if self.leads and message.keys() & {"told", "ended"}:
            self._send({**message, "node": node}, but=peer)

    def _forget(self) -> None:
        """What was said of the run before is over."""
        self.told, self.ended, self._logs, self._whole = {}, {}, {}, set()

    def add(self, peer: Peer, name: str) -> None:
        peer.name = name
        self._peers.append(peer)


class Hall:
    """Where the nodes meet: makes a ``Meeting``.

    Args:
        place: host and port, the same on all nodes.
        count: how many nodes there are to be.
        node: this one's name.
        asked: what is asked for: has to be the same on all nodes.
        secret: as well.
        say: shows a person what is waited for.
    """

    def __init__(
        self, place: tuple[str, int], count: int, node: str, asked: Mapping[str, Any], secret: str, say: Say
    ) -> None:
        self._place = place
        self._count = count
        self._node = node
        self._asked: dict[str, Any] = json.loads(json.dumps(asked))  # as it arrives at the others
        self._secret = secret
        self._say = say
        self._refused = ""

    def meet(self, limit_s: float = MEET_S) -> Meeting:
        """Return the meeting, once all nodes have come.

        Raises:
            MeetingError: not all came in time, one was asked for something else, or the address cannot be used.
        """
        host = self._place[0]
        try:
            address = socket.gethostbyname(host)
        except OSError as error:
            raise MeetingError(f"--meet {host}: {error.strerror}") from None
        if ipaddress.ip_address(address).is_loopback:
            text = f"--meet {host}: that is {address} here, where no other node gets to"
            raise MeetingError(f"{text}. Give the address at which the others reach the first")
        listener = self.listener(address)
        if listener is None:
            return self.follow(limit_s)
        with listener:
            return self.lead(listener, limit_s)

    def listener(self, address: str) -> socket.socket | None:
        """Return what listens for the others; None where ``address`` is another node's."""
        host, port = self._place
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((address, port))
            listener.listen(128)
        except OSError as error:
            listener.close()
            if error.errno == errno.EADDRNOTAVAIL:
                return None
            raise MeetingError(f"cannot listen on {host}:{port}: {error.strerror}; --meet another port") from None
        return listener

    def lead(self, listener: socket.socket, limit_s: float) -> Meeting:
        """``meet`` of the node that the address is one of."""
        deadline = time.monotonic() + limit_s
        meeting = Meeting(self._node, listener.getsockname()[0], leads=True)
        strangers: dict[Peer, str] = {}
        where = ":".join(map(str, self._place))
        while len(meeting.nodes) < self._count:
            missing = f"{self._count - len(meeting.nodes)} of {self._count} nodes"
            self._say(f"waiting at {where} for {missing}; here: {', '.join(meeting.nodes)}")
            came = len(meeting.nodes)
            while len(meeting.nodes) == came:
                left = deadline - time.monotonic()
                if left <= 0:
                    text = f"{missing} did not come to {where} within {limit_s:g} s; here: {', '.join(meeting.nodes)}"
                    raise MeetingError(text + self._refused)
                self._look(listener, strangers, meeting, min(left, 1.0))
        meeting.say(nodes=meeting.nodes)
        return meeting

    def _look(self, listener: socket.socket, strangers: dict[Peer, str], meeting: Meeting, wait_s: float) -> None:
        sources: list[Any] = [listener, *strangers]
        for source in select.select(sources, [], [], wait_s)[0]:
            if source is listener:
                connection, _ = listener.accept()
                peer, nonce = _peer(connection), secrets.token_hex(16)
                strangers[peer] = nonce
                peer.send({"nonce": nonce})
                continue
            for message in source.read()[:1]:
                self._greet(source, strangers.pop(source), message, meeting)
        for peer in [one for one in strangers if not one.open or time.monotonic() - one.since > HELLO_TIMEOUT_S]:
            del strangers[peer]
            peer.close()
        meeting.hear()
        if meeting.lost:
            raise MeetingError(f"node {meeting.lost[0]} came, and has gone again: it says there why")

    def _greet(self, peer: Peer, nonce: str, message: Mapping[str, Any], meeting: Meeting) -> None:
        theirs, name = str(message.get("nonce")), str(message.get("node"))
        if not hmac.compare_digest(str(message.get("proof")).encode(), self._proof("follows", nonce, theirs).encode()):
            peer.send({"refused": "it knows another secret: TBD_EXEC_SECRET has to be the same on all nodes"})
            host = peer.socket.getpeername()[0]
            self._refused = f"; {host} was sent away, which knows another secret (TBD_EXEC_SECRET)"
            peer.close()
            return
        meeting.add(peer, name)
        problem = self._differing(name, message.get("asked") or {})
        if name in meeting.nodes:
            problem = f"two nodes are called {name}: give one of them another host name"
        if problem:
            meeting.say(refused=problem)
            raise MeetingError(problem)
        peer.send({"proof": self._proof("leads", nonce, theirs)})
        meeting.nodes.append(name)

    def _differing(self, name: str, theirs: Mapping[str, Any]) -> str:
        for what, mine in self._asked.items():
            if theirs.get(what) != mine:
                return f"{what} is {theirs.get(what)} on node {name}, and {mine} on {self._node}: say the same on all"
        return ""

    def follow(self, limit_s: float) -> Meeting:
        """``meet`` of any other node."""
        deadline = time.monotonic() + limit_s
        where = ":".join(map(str, self._place))
        self._say(f"connecting to {where}")
        connection = self._connection(deadline, limit_s)
        meeting = Meeting(self._node, connection.getsockname()[0], leads=False)
        peer, nonce = _peer(connection), secrets.token_hex(16)
        answers = self._answers(peer, deadline)
        theirs = str(_next(answers, "nonce"))
        proof = self._proof("follows", theirs, nonce)
        peer.send({"nonce": nonce, "proof": proof, "node": self._node, "asked": self._asked})
        proof = str(_next(answers, "proof"))
        if not hmac.compare_digest(proof.encode(), self._proof("leads", theirs, nonce).encode()):
            raise MeetingError(f"what listens on {where} does not know the secret (TBD_EXEC_SECRET)")
        meeting.nodes = [str(one) for one in _next(answers, "nodes")]
        meeting.add(peer, meeting.nodes[0])
        return meeting

    def _connection(self, deadline: float, limit_s: float) -> socket.socket:
        while True:
            try:
                return socket.create_connection(self._place, timeout=HELLO_TIMEOUT_S)
            except OSError as error:
                if time.monotonic() > deadline:
                    where = ":".join(map(str, self._place))
                    text = f"no tbd exec could be reached at {where} within {limit_s:g} s: {error.strerror or error}"
                    raise MeetingError(f"{text}. Begin it on the node of that address as well") from None
                time.sleep(_RETRY_S)

    def _answers(self, peer: Peer, deadline: float) -> Iterator[dict[str, Any]]:
        """Yield what the one that leads says until all nodes have come."""
        while peer.open:
            left = deadline - time.monotonic()
            if left <= 0:
                raise MeetingError(f"not all of {self._count} nodes came in time: the one that leads says which")
            if select.select([peer], [], [], left)[0]:
                yield from peer.read()
        raise MeetingError("the node that leads has gone: it says there why")

    def _proof(self, role: str, *nonces: str) -> str:
        return hmac.new(self._secret.encode(), "\n".join((role, *nonces)).encode(), "sha256").hexdigest()


def _next(answers: Iterator[dict[str, Any]], what: str) -> Any:
    message = next(answers)
    if what not in message:
        raise MeetingError(str(message.get("refused", "what listens there is no tbd exec")))
    return message[what]


def _peer(connection: socket.socket) -> Peer:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in ((socket.TCP_KEEPIDLE, _ASK_S), (socket.TCP_KEEPINTVL, _ASK_S), (socket.TCP_KEEPCNT, 3)):
        connection.setsockopt(socket.IPPROTO_TCP, option, value)
    peer = Peer(connection, time.monotonic)
    connection.settimeout(END_S)  # who takes in a log may be in the middle of something
    return peer
