"""Devices held in Ray's own books for an attempt, so that other users of a shared Ray cluster are not placed on them.

One detached placement group per attempt, named after it, with a bundle on each of its nodes. Ray only counts: the
processes of an attempt are the agents' children. A group outlives this server, and is removed by whoever first finds
that its attempt is over.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from orchestrator.domain.errors import DevicesTaken
from orchestrator.domain.placement import Device, Placement

PREFIX = "tbd-held-"
# A group that fits is ready within milliseconds; Ray lets one that does not wait for ever, and says nothing.
READY_S = 2.0
# Label of a node in Ray (docs.ray.io, "Use labels to control scheduling").
NODE_ID_LABEL = "ray.io/node-id"

_log = logging.getLogger(__name__)


class Holds:
    """The placement groups of attempts in the cluster that ``ray`` is connected to."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._groups: dict[str, Any] | None = None  # by attempt; None: not yet asked what a former server left

    def hold(self, attempt_id: str, placement: Placement, node_ids: Mapping[str, str]) -> None:
        """Hold the devices of ``placement``; ``node_ids`` are Ray's ids of the nodes by name. Idempotent.

        Raises:
            DevicesTaken: they are not free in Ray's books within ``READY_S``, or a node has gone.
        """
        groups = self._known()
        if attempt_id in groups:
            return
        missing = [node for node in placement.nodes if node not in node_ids]
        if missing:
            raise DevicesTaken(f"waits for {', '.join(missing)}, which Ray has lost")
        group = self._ray.util.placement_group(
            _bundles(placement),
            strategy="PACK",
            name=PREFIX + attempt_id,
            lifetime="detached",
            bundle_label_selector=[{NODE_ID_LABEL: node_ids[node]} for node in placement.nodes],
        )
        if not group.wait(READY_S):
            self._ray.util.remove_placement_group(group)
            raise DevicesTaken(f"waits: another user of Ray holds devices of {', '.join(placement.nodes)}")
        groups[attempt_id] = group

    def let_go(self, held: Collection[str]) -> None:
        """Remove the groups of all attempts but ``held``."""
        groups = self._known()
        for attempt_id in [one for one in groups if one not in held]:
            self._ray.util.remove_placement_group(groups.pop(attempt_id))

    def _known(self) -> dict[str, Any]:
        if self._groups is None:
            self._groups = {name[len(PREFIX) :]: self._ray.util.get_placement_group(name) for name in self._left()}
            if self._groups:
                _log.info("found %d held placements of a former server", len(self._groups))
        return self._groups

    def _left(self) -> Sequence[str]:
        table = self._ray.util.placement_group_table()
        return [one["name"] for one in table.values() if one["name"].startswith(PREFIX) and one["state"] != "REMOVED"]


def _bundles(placement: Placement) -> list[dict[str, float]]:
    return [_bundle(share.devices) for share in placement.shares]


def _bundle(devices: Sequence[Device]) -> dict[str, float]:
    """A CPU device is its cores; a GPU is one of Ray's."""
    cores = sum(len(device.cores) for device in devices)
    found = {"CPU": float(cores), "GPU": float(sum(device.kind == "cuda" for device in devices))}
    return {name: amount for name, amount in found.items() if amount} or {"CPU": 0.001}
