"""The nodes as a server knows them that follows: as the one that leads has stored them (``roster``)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from orchestrator.domain.around.server import Server
from orchestrator.domain.asked.placement import Node
from orchestrator.domain.ports import Clock, Store
from orchestrator.domain.words.errors import ClusterUnavailable, NotFound
from orchestrator.domain.words.plain import reader_of

ENVIRONMENTS = "environments"
KEPT_S = 1.0  # as long as it answers from what it has read; a judgement


class StoredNodes:
    """The nodes as the leader has stored them. ``leader``: who that is."""

    def __init__(self, store: Store, clock: Clock, leader: Callable[[], Server | None]) -> None:
        self._store = store
        self._clock = clock
        self._leader = leader
        self._read: tuple[float, Mapping[str, Mapping[str, Any]]] | None = None

    def nodes(self) -> Sequence[Node]:
        return [reader_of(Node).validate_python(told) for told in self._known().values()]

    def interpreters(self, node: str) -> Sequence[Mapping[str, Any]]:
        """See ``domain.ports.Cluster``."""
        if node not in self._known():
            raise NotFound("node", node)
        found: Sequence[Mapping[str, Any]] = self._known()[node].get(ENVIRONMENTS) or ()
        return found

    def refusal(self) -> ClusterUnavailable:
        """Why there is no answer to what agents would have to be asked."""
        leader = self._leader()
        where = f"ask it, at {leader}" if leader else "there is none at present"
        return ClusterUnavailable(f"only the server that leads speaks to agents: {where}")

    def _known(self) -> Mapping[str, Mapping[str, Any]]:
        now = self._clock.monotonic()
        if self._read is None or now - self._read[0] > KEPT_S:
            self._read = now, self._store.known_nodes()
        return self._read[1]
