"""Ports for the processes of attempts: chosen where no other program's outgoing connections will land."""

from __future__ import annotations

import collections
import errno
import random
import socket
from pathlib import Path

PURPOSES = ("control", "framework")

# Ports below the range from which the kernel takes those of outgoing connections (ip_local_port_range), and above the
# usual services'. Which are tried first is left to chance: two agents of one machine should not meet.
_FIRST = 20000
_TRIES = 200
# Attempts remembered: far more than run at a time on one node.
_REMEMBERED = 256


class Ports:
    """The ports given to attempts on this node."""

    def __init__(self) -> None:
        self._given: collections.OrderedDict[str, dict[str, int]] = collections.OrderedDict()

    def of(self, attempt_id: str) -> dict[str, int]:
        """Return purpose -> port for the attempt; the same again for the same attempt.

        Raises:
            OSError: no free one was found.
        """
        if attempt_id not in self._given:
            taken = {port for ports in self._given.values() for port in ports.values()}
            chosen: dict[str, int] = {}
            for purpose in PURPOSES:
                chosen[purpose] = free_port(taken)
                taken.add(chosen[purpose])
            self._given[attempt_id] = chosen
            while len(self._given) > _REMEMBERED:
                self._given.popitem(last=False)
        return self._given[attempt_id]


def free_port(taken: set[int] | frozenset[int] = frozenset(), host: str = "") -> int:
    """Return a TCP port that nobody listens on at ``host`` (all addresses), and that is not in ``taken``.

    Raises:
        OSError: none of those tried is free, or ``host`` is no address of this machine.
    """
    last = _first_ephemeral() - 1
    for port in random.sample(range(_FIRST, last), min(_TRIES, last - _FIRST)):
        if port not in taken and _is_free(host, port):
            return port
    raise OSError(f"none of {_TRIES} ports tried between {_FIRST} and {last} is free")


def _is_free(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise
        return True


def _first_ephemeral() -> int:
    try:
        first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError):
        first = 32768
    return first if first > _FIRST + _TRIES else 65536
