"""The nodes for servers that follow: the one that leads stores what it knows of them, and the others read it there.

Who follows speaks to no agent. What REST shows of nodes, checks submissions by, or answers of environments is at most
some seconds older than what the leader says.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.domain.asked.placement import Node, NodeState
from orchestrator.domain.words.errors import ClusterUnavailable, NotFound
from orchestrator.domain.words.plain import plain
from orchestrator.services.context import Context
from orchestrator.services.lookout import Lookout
from orchestrator.services.reconcile.reconciler import Bell
from orchestrator.services.reconcile.stored_nodes import ENVIRONMENTS

# Judgements.
LOOK_S = 3.0  # between two looks of the leader at what changed
ROOM_BYTES = 1 << 24  # smaller differences in what is free on a disk are not written down


class Roster(Lookout):
    """Stores the nodes that changed. For the server that leads."""

    def __init__(self, context: Context) -> None:
        super().__init__("roster", Bell())
        self._context = context
        self._stored: Mapping[str, Mapping[str, Any]] | None = None
        self._environments: dict[str, tuple[Any, Sequence[Any]]] = {}

    def look(self) -> float:
        if self._stored is None:
            self._stored = self._context.store.known_nodes()
        told = {node.name: self._told(node) for node in self._context.cluster.nodes()}
        changed = {name: one for name, one in told.items() if self._stored.get(name) != one}
        gone = self._stored.keys() - told.keys()
        if changed or gone:
            self._context.store.know_nodes(changed, gone)
        self._stored = told
        return LOOK_S

    def _told(self, node: Node) -> Mapping[str, Any]:
        told: dict[str, Any] = plain(node)
        if free := node.inventory.get("disk_free_bytes"):
            told["inventory"] = told["inventory"] | {"disk_free_bytes": free // ROOM_BYTES * ROOM_BYTES}
        return told | {ENVIRONMENTS: self._of_environments(node)}

    def _of_environments(self, node: Node) -> Sequence[Any]:
        """What the agent says of them, asked again where its inventory shows that they changed."""
        there = [node.inventory.get(name) for name in ("boot_id", "interpreters", "interpreters_unfit")]
        asked, answer = self._environments.get(node.name, (None, ()))
        if asked != there and node.state is NodeState.AVAILABLE:
            try:
                answer = list(map(plain, self._context.cluster.interpreters(node.name)))
                self._environments[node.name] = there, answer
            except (ClusterUnavailable, NotFound):  # at the next look
                pass
        return list(answer)
