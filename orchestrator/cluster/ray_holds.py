"""Devices held in Ray's own books for an attempt, so that other users of a shared Ray cluster are not placed on them.

One detached placement group per attempt, named after it, with a bundle on each of its nodes. The processes of an
attempt are the agents' children, and no tasks of Ray's. A group outlives this server, and is removed by whoever first
finds that its attempt is over.

Of CPUs Ray keeps the number only. GPUs it gives by number (``CUDA_VISIBLE_DEVICES`` of its own tasks), which nobody can
choose: a short task in each bundle asks which they are, and the attempt gets those.
"""

import logging
import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from orchestrator.domain.asked.placement import Device, NodeShare, Placement
from orchestrator.domain.words.errors import DevicesTaken, NodeUnreachable

PREFIX = "tbd-held-"
# A group that fits is ready within milliseconds; Ray lets one that does not wait for ever, and says nothing.
READY_S = 2.0
# Judgement: the task that asks which GPUs were given needs a worker of Ray's, whose start takes a second or some.
GIVEN_S = 30.0
# Label of a node in Ray (docs.ray.io, "Use labels to control scheduling").
NODE_ID_LABEL = "ray.io/node-id"

_log = logging.getLogger(__name__)


class Holds:
    """The placement groups of attempts in the cluster that ``ray`` is connected to. Several threads may use it."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._lock = threading.Lock()  # of the table, never held while Ray is asked
        self._groups: dict[str, Any] | None = None  # by attempt; None: not yet asked what a former server left

    def hold(
        self,
        attempt_id: str,
        placement: Placement,
        node_ids: Mapping[str, str],
        inventories: Mapping[str, Mapping[str, Any]],
    ) -> Placement:
        """Hold the devices of ``placement``, or as many GPUs of the same nodes as Ray chooses; return what is held.

        Args:
            node_ids: Ray's ids of the nodes by name.
            inventories: what the agents say of them, by name.

        Raises:
            DevicesTaken: they are not free in Ray's books within ``READY_S``, a node has gone, or Ray gives a GPU that
                its node does not offer.
            NodeUnreachable: Ray starts no worker there within ``GIVEN_S``.
        """
        groups = self._known()
        group = groups.get(attempt_id)
        if group is None:
            group = groups[attempt_id] = self._group(attempt_id, placement, node_ids)
        try:
            shares = [
                self._given(group, index, share, inventories[share.node])
                for index, share in enumerate(placement.shares)
            ]
        except (DevicesTaken, NodeUnreachable, self._ray.exceptions.RayError):
            self._ray.util.remove_placement_group(groups.pop(attempt_id))
            raise
        return Placement(tuple(shares))

    def _group(self, attempt_id: str, placement: Placement, node_ids: Mapping[str, str]) -> Any:
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
        return group

    def _given(self, group: Any, bundle: int, share: NodeShare, inventory: Mapping[str, Any]) -> NodeShare:
        """The share with the GPUs that Ray keeps for the bundle in the place of those that were wanted."""
        wanted = sum(device.kind == "cuda" for device in share.devices)
        if not wanted:
            return share
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        def ask() -> list[str]:
            import ray

            return [str(one) for one in ray.get_runtime_context().get_accelerator_ids().get("GPU", ())]

        within = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=bundle)
        task = self._ray.remote(num_cpus=0, num_gpus=wanted, max_retries=0, scheduling_strategy=within)(ask)
        try:
            given = self._ray.get(task.remote(), timeout=GIVEN_S)
        except self._ray.exceptions.GetTimeoutError:
            why = f"Ray has started no worker there within {GIVEN_S:g} s to say which GPUs it gives"
            raise NodeUnreachable(share.node, why) from None
        return NodeShare(share.node, tuple(_device(name, share.node, inventory) for name in given))

    def held(self) -> Collection[str]:
        """The attempts that have a group."""
        return list(self._known())

    def let_go(self, over: Collection[str]) -> None:
        """Remove the groups of the attempts ``over``."""
        groups = self._known()
        for attempt_id in over:
            if attempt_id in groups:
                self._ray.util.remove_placement_group(groups[attempt_id])
                groups.pop(attempt_id, None)

    def _known(self) -> dict[str, Any]:
        if self._groups is None:
            found = {name[len(PREFIX) :]: self._ray.util.get_placement_group(name) for name in self._left()}
            with self._lock:
                if self._groups is None:
                    self._groups = found
                    if found:
                        _log.info("found %d held placements of a former server", len(found))
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


def _device(name: str, node: str, inventory: Mapping[str, Any]) -> Device:
    """The device that Ray calls ``name``: the driver's number, or a UUID where Ray was started with those.

    Raises:
        DevicesTaken: the node does not offer it.
    """
    for device in inventory.get("devices") or ():
        if device["kind"] == "cuda" and name in (device.get("number"), device["id"]):
            return Device.from_json(device)
    withheld = inventory.get("gpus_withheld") or {}
    left_out = (inventory.get("unavailable") or {}).get("gpus") or "see TBD_GPUS"
    why = withheld.get(name) or next((text for text in withheld.values() if text.startswith(f"GPU {name}:")), left_out)
    raise DevicesTaken(f"waits: Ray gives GPU {name} of {node}, which is not offered there: {why}")
