"""The end of the control channel that any other rank has."""

import select
import socket
import time
from typing import Any, List, Optional

from workers.trainer.base.failure import TrainerError
from workers.trainer.base.job import JOIN_TIMEOUT_S, Control
from workers.trainer.base.peer import CULPRIT_S, Peer
from workers.trainer.base.signatures import Clock, Data, Order, Proposal

RETRY_S = 0.05
# A member waits this much longer than rank 0 does: who is missing is for rank 0 to say.
PATIENCE_S = 5.0


class Member(object):
    """Any other rank's end: reports and obeys."""

    def __init__(
        self,
        control: Control,
        token: str,
        rank: int,
        timeout_s: float,
        clock: Clock = time.monotonic,
        again: bool = False,
    ) -> None:
        self._address = (control.host, control.port)
        self._token = token
        self._rank = rank
        self._timeout_s = timeout_s + PATIENCE_S
        self._again = again
        self._clock = clock
        self._peer: Any = None
        self._inbox: List[Order] = []

    def join(self) -> None:
        """Connect to rank 0 and wait until every rank has come.

        Raises:
            TrainerError: ``timed_out``; ``setup_failed``, rank 0 refused us; or what ended the attempt meanwhile.
        """
        deadline = self._clock() + min(JOIN_TIMEOUT_S + PATIENCE_S, self._timeout_s)
        answer = self._greet(deadline)
        while answer is None:
            time.sleep(RETRY_S)
            answer = self._greet(deadline)
        if "refused" in answer:
            raise TrainerError(
                "setup_failed", "rank 0 refused rank %d: %s" % (self._rank, answer["refused"]), [self._rank]
            )

    def turn(self, step: int, proposal: Proposal, done: str = "max_steps") -> Order:
        """Report ``step`` steps done; return rank 0's order. ``proposal`` and ``done`` are not asked for.

        Raises:
            TrainerError: a rank has failed, rank 0 was lost, or it gave no order in time.
        """
        self._peer.send({"ready": step})
        return self._receive(self._clock() + self._timeout_s)

    def agree(self, value: Any) -> Any:
        """Return what rank 0 tells all ranks; ``value`` is not asked for.

        Raises:
            TrainerError: a rank has failed, rank 0 was lost, or it told nothing in time.
        """
        return self._receive(self._clock() + self._timeout_s)["agreed"]

    def take_clocks(self) -> List[Data]:
        """Return nothing: it is rank 0 that compares the clocks."""
        return []

    def culprit(self, patience_s: float = CULPRIT_S) -> Optional[TrainerError]:
        """Return as a ``TrainerError`` which other rank has failed or gone, when rank 0 tells it or has gone itself."""
        deadline = self._clock() + patience_s
        while self._peer and self._clock() < deadline:
            try:
                self._receive(deadline)
            except TrainerError as found:
                # The last of these is our own impatience, and tells nothing of rank 0.
                return found if self._clock() < deadline else None
        return None

    def fail(self, kind: str, message: str) -> None:
        """Tell rank 0 that this rank has failed."""
        if self._peer:
            self._peer.send({"failed": kind, "message": message})

    def close(self) -> None:
        if self._peer:
            self._peer.close()

    def _greet(self, deadline):
        """Say who we are; return rank 0's answer, None where it went without one and its successor may still come."""
        self._peer = self._connect(deadline)
        self._peer.send({"token": self._token, "rank": self._rank})
        try:
            return self._receive(deadline)
        except TrainerError as error:
            if not self._again or error.kind != "crashed" or self._peer.open:
                raise
            self._peer.close()
            return None

    def _connect(self, deadline):
        while True:
            left = deadline - self._clock()
            if left <= 0:
                raise TrainerError("timed_out", "rank 0 does not listen on %s:%s" % self._address, [0])
            try:
                return Peer(socket.create_connection(self._address, timeout=left), self._clock)
            except OSError:
                time.sleep(RETRY_S)

    def _receive(self, deadline):
        while not self._inbox:
            left = deadline - self._clock()
            if left <= 0:
                raise TrainerError("timed_out", "rank 0 gave no order in time", [0])
            if not self._peer.open:
                raise TrainerError("crashed", "rank 0 was lost", [0])
            if select.select([self._peer], [], [], left)[0]:
                self._inbox.extend(self._peer.read())
        order = self._inbox.pop(0)
        if "ping" in order:
            self._peer.send({"pong": order["ping"], "t": self._clock()})
            return self._receive(deadline)
        if order.get("failure"):
            raise TrainerError(order["failure"], order["stop"], order.get("ranks"))
        return order
