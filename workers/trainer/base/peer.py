"""One connection of the control channel, or of a meeting of nodes, and the limits that both of its ends keep."""

import json
import socket
from typing import Any, Dict, List

from workers.trainer.base.signatures import Clock

# One JSON object, a line of the channel.
Message = Dict[str, Any]

# Judgement: a peer that does not say who it is within this time is a stranger.
HELLO_TIMEOUT_S = 10.0
# Judgement: at most this long for the news of a rank whose loss a framework has noticed; it is on its way by then.
CULPRIT_S = 10.0
# Longest line that a peer may send; none of ours comes near.
LONGEST_LINE = 65536


class Peer(object):
    """One connection, read by lines without blocking."""

    def __init__(self, connection: socket.socket, clock: Clock) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(HELLO_TIMEOUT_S)
        self.socket = connection
        self.since = clock()
        self.name: Any = None
        self.open = True
        self._rest = b""

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, message: Message) -> None:
        """Send one line. That a peer has gone is noticed when it is read from: it may have said why before it went."""
        try:
            self.socket.sendall((json.dumps(message) + "\n").encode("utf-8"))
        except OSError:
            pass

    def read(self) -> List[Message]:
        """Return the messages that have arrived; afterwards ``open`` is False if the peer has gone or talks nonsense.

        Call it when ``select`` says there is something to read.
        """
        try:
            data = self.socket.recv(LONGEST_LINE)
        except OSError:
            data = b""
        if not data:
            self.open = False
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        messages = [self._parse(line) for line in lines]
        if len(self._rest) > LONGEST_LINE or None in messages:
            self.open = False
        return [message for message in messages if message is not None]

    @staticmethod
    def _parse(line):
        try:
            message = json.loads(line.decode("utf-8"))
        except ValueError:
            return None
        return message if isinstance(message, dict) else None

    def close(self) -> None:
        self.open = False
        self.socket.close()
