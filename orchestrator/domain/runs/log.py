"""What the agents tell: the entries of an attempt's event log, and how far the attempt is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

Entry = Mapping[str, Any]  # one entry of an event log, as workers.trainer.protocol describes it


class Line(NamedTuple):
    """An entry as it is stored: ``body`` is all of it as JSON, without the node."""

    seq: int
    kind: str
    body: str


@dataclass(frozen=True)
class LogSlice:
    """Entries of one log, in order. ``ended``: the attempt is over on this node and ``last_seq`` is its last entry."""

    entries: Sequence[Entry]
    last_seq: int
    ended: bool


@dataclass(frozen=True)
class AttemptStatus:
    """What an agent says of an attempt on its node. ``ended`` means its processes are dead, by pid and start time;
    ``ended_ago_s`` for how long, where the agent tells it."""

    attempt_id: str
    token_sha256: str
    ended: bool
    last_seq: int
    ended_ago_s: float | None = None
