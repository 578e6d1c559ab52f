"""A server as it names itself to one that comes second."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

# Seconds for which a server of a database of PostgreSQL leads without renewing that. A judgement: a network's hiccup
# passes, and when a leader was killed a person hardly notices.
LEASE_S = 10.0


@dataclass(frozen=True)
class Server:
    """A ``tbd serve``: where it answers, the host and the process that it is, since when (seconds since the epoch)."""

    url: str
    host: str
    pid: int
    since: float

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> "Server | None":
        """What a server noted of itself; None where that cannot be read, or says nothing."""
        try:
            return cls(str(facts["url"]), str(facts["host"]), int(facts["pid"]), float(facts["since"]))
        except (KeyError, TypeError, ValueError):
            return None

    def __str__(self) -> str:
        at = f"{datetime.fromtimestamp(self.since, UTC):%Y-%m-%dT%H:%M:%SZ}"
        return f"{self.url} on {self.host} (process {self.pid}), since {at}"


def way_out(server: Server | None) -> str:
    """What who comes second can do."""
    if server is None:
        return "it has not told it yet, try again"
    return f"talk to it (on {server.host}: TBD_SERVER={server.url}), or stop it; where it hangs, end that process"
