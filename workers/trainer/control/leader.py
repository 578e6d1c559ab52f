"""Rank 0's end of the control channel."""

import hmac
import select
import socket
import time
from typing import Any, Dict, List, Optional, Sequence

from workers.trainer.base.failure import TrainerError
from workers.trainer.base.job import JOIN_TIMEOUT_S, Control
from workers.trainer.base.peer import CULPRIT_S, HELLO_TIMEOUT_S, Peer
from workers.trainer.base.signatures import Clock, Data, Order, Proposal
from workers.trainer.control.clocks import clock_of

ROUNDS = 8
# Judgements: so many pings show how far a clock is ahead (the quickest one counts), and one that takes longer says
# nothing worth waiting for.
PINGS = 8
PING_TIMEOUT_S = 1.0
# Judgements: all ranks take the same steps. One that lets the others wait for a minute, and ten times as long as rank 0
# needed, stands still. The time limit would end it too, but each node would then name its own ranks.
STANDSTILL_S = 60.0
STANDSTILL_RATIO = 10.0


class Leader(object):
    """Rank 0's end: gathers the ranks before each interval and tells all of them what is next.

    ``far`` are the ranks on other nodes: those with clocks of their own. ``take_clocks`` returns what was found out.
    """

    def __init__(
        self,
        control: Control,
        token: str,
        others: Sequence[int],
        world_size: int,
        timeout_s: float,
        far: Sequence[int] = (),
        clock: Clock = time.monotonic,
    ) -> None:
        self._token = token
        self._others = list(others)
        self._world_size = world_size
        self._timeout_s = timeout_s
        self._clock = clock
        self._strangers: List[Peer] = []
        self._members: Dict[int, Peer] = {}
        self._agents: List[Peer] = []
        self._ready: Dict[int, int] = {}
        self._failed = None
        self._stop = None
        self._ordered_at: Optional[float] = None
        self._far = list(far)
        self._pong = None
        self._clocks: List[Data] = []
        self._listener = self._listen(control)

    def _listen(self, control):
        if control.port is None:
            if self._others:
                raise TrainerError("setup_failed", "several processes and no port for their control channel")
            return None
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((control.host, control.port))
        except OSError as error:
            listener.close()
            raise TrainerError("setup_failed", "cannot listen on %s:%s: %s" % (control.host, control.port, error))
        listener.listen(64)
        return listener

    @property
    def port(self) -> Optional[int]:
        """The port listened on, or None."""
        return self._listener.getsockname()[1] if self._listener else None

    def join(self) -> None:
        """Wait until every rank has come, then tell them.

        Raises:
            TrainerError: ``timed_out``, with the ranks that did not come; or what a rank that came has failed with.
        """
        deadline = self._clock() + min(JOIN_TIMEOUT_S, self._timeout_s)
        while len(self._members) < len(self._others):
            missing = [rank for rank in self._others if rank not in self._members]
            self._wait(deadline, missing, "did not join")
        self._compare_clocks()
        self._broadcast({"joined": self._world_size})

    def turn(self, step: int, proposal: Proposal, done: str = "max_steps") -> Order:
        """Wait for all ranks to have done ``step`` steps; return the order that was given to all of them.

        ``proposal`` is (phase, n), or None when there is nothing more to do, of which ``done`` is the reason. The order
        is ``{"go": n, "phase": phase}`` or ``{"stop": reason}``.

        Raises:
            TrainerError: a rank failed, was lost or did not become ready in time; the others have been told.
        """
        deadline = self._clock() + self._patience_s(step)
        # A connection is accepted, read and answered in a round each; a peer that never ends is not waited for.
        for _ in range(ROUNDS):
            if not self._poll(0.0):
                break
        self._check()
        while any(self._ready.get(rank) != step for rank in self._others):
            late = [rank for rank in self._others if self._ready.get(rank) != step]
            self._wait(deadline, late, "did not finish step %d" % step)
        order: Order
        if self._stop is not None:
            order = {"stop": self._stop}
        elif proposal is None:
            order = {"stop": done}
        else:
            order = {"go": proposal[1], "phase": proposal[0]}
        if "stop" in order:  # every rank waits for this order, so every one answers at once
            self._compare_clocks()
        self._broadcast(order)
        self._ordered_at = self._clock()
        return order

    def agree(self, value: Any) -> Any:
        """Tell all ranks ``value``, between joining and the first turn; return it."""
        self._broadcast({"agreed": value})
        return value

    def take_clocks(self) -> List[Data]:
        """Return what was found out about the clocks of other nodes since the last call: data of ``clock`` events."""
        clocks, self._clocks = self._clocks, []
        return clocks

    def culprit(self, patience_s: float = CULPRIT_S) -> Optional[TrainerError]:
        """Return as a ``TrainerError`` which other rank has failed or gone, when that is known, else None.

        For a rank whose framework says that some other one does not answer any more. The others are told too.
        """
        deadline = self._clock() + patience_s
        while self._failed is None and self._clock() < deadline:
            self._poll(max(0.0, deadline - self._clock()))
            if self._listener is None:
                break
        try:
            self._check()
        except TrainerError as found:
            return found
        return None

    def fail(self, kind: str, message: str) -> None:
        """Tell all ranks that rank 0 has failed."""
        self._broadcast({"stop": message, "failure": kind, "ranks": [0]})

    def close(self) -> None:
        for peer in self._peers():
            peer.close()
        if self._listener:
            self._listener.close()

    def _patience_s(self, step):
        """How long the others are waited for. Before the first step each prepares at a pace of its own."""
        if step == 0 or self._ordered_at is None:
            return self._timeout_s
        own_s = self._clock() - self._ordered_at
        return min(self._timeout_s, max(STANDSTILL_S, STANDSTILL_RATIO * own_s))

    def _wait(self, deadline, ranks, what):
        left = deadline - self._clock()
        if left <= 0:
            self._failed = ("timed_out", "rank %s %s in time" % (", ".join(map(str, ranks)), what), ranks)
        else:
            self._poll(left)
        self._check()

    def _check(self):
        if self._failed:
            kind, message, ranks = self._failed
            self._broadcast({"stop": message, "failure": kind, "ranks": ranks})
            raise TrainerError(kind, message, ranks)

    def _compare_clocks(self):
        for rank in self._far:
            answers = [answer for answer in (self._ping(rank, number) for number in range(PINGS)) if answer]
            self._check()
            if answers:
                self._clocks.append(dict(clock_of(answers), peer_rank=rank, pings=len(answers)))

    def _ping(self, rank, number):
        """Return (sent, clock of the peer, received), or None when there was no answer."""
        peer = self._members.get(rank)
        if peer is None:
            return None
        self._pong = None
        sent = self._clock()
        peer.send({"ping": number})
        left = PING_TIMEOUT_S
        while left > 0 and peer.open:
            self._poll(left)
            if self._pong is not None and self._pong[:2] == (rank, number):
                return (sent,) + self._pong[2:]
            left = sent + PING_TIMEOUT_S - self._clock()
        return None

    def _peers(self):
        return self._strangers + self._agents + list(self._members.values())

    def _broadcast(self, order):
        for peer in self._members.values():
            peer.send(order)

    def _poll(self, wait_s):
        """Take in whatever has arrived, waiting for it ``wait_s`` seconds at most; return whether anything had."""
        if self._listener is None:
            return False
        if self._strangers:
            wait_s = min(wait_s, HELLO_TIMEOUT_S)
        readable = select.select([self._listener] + self._peers(), [], [], wait_s)[0]
        for source in readable:
            if source is self._listener:
                self._strangers.append(Peer(self._listener.accept()[0], self._clock))
            else:
                for message in source.read():
                    self._take(source, message)
        self._sweep()
        return bool(readable)

    def _take(self, peer, message):
        if peer in self._strangers:
            self._greet(peer, message)
        elif peer in self._agents:
            if "stop" in message:
                self._stop = str(message["stop"])
        elif "failed" in message:
            self._failed = (message["failed"], "rank %d: %s" % (peer.name, message.get("message")), [peer.name])
        elif "ready" in message:
            self._ready[peer.name] = message["ready"]
        elif "pong" in message:
            self._pong = (peer.name, message["pong"], float(message["t"]), self._clock())

    def _greet(self, peer, message):
        rank = message.get("rank")
        if not hmac.compare_digest(str(message.get("token")).encode("utf-8"), self._token.encode("utf-8")):
            self._refuse(peer, "wrong token")
        elif message.get("role") == "agent":
            self._strangers.remove(peer)
            self._agents.append(peer)
        elif rank not in self._others or rank in self._members:
            self._refuse(peer, "rank %r is not awaited" % (rank,))
        else:
            self._strangers.remove(peer)
            peer.name = rank
            self._members[rank] = peer

    def _refuse(self, peer, reason):
        peer.send({"refused": reason})
        peer.open = False

    def _sweep(self):
        """Let go of peers that went away, and of those that have not said who they are."""
        now = self._clock()
        for peer in self._strangers:
            if now - peer.since > HELLO_TIMEOUT_S:
                peer.open = False
        for peer in [peer for peer in self._peers() if not peer.open]:
            peer.close()
            if peer in self._strangers:
                self._strangers.remove(peer)
            elif peer in self._agents:
                self._agents.remove(peer)
            else:
                del self._members[peer.name]
                # It may have said why before it went.
                self._failed = self._failed or ("crashed", "rank %d was lost" % peer.name, [peer.name])
