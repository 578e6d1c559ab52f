"""What happened to the devices of nodes: noted from what agents say, and taken back by a person."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.domain.around.access import Actor
from orchestrator.domain.around.device_health import (
    CRASHES_COUNT_S,
    DeviceEvent,
    EventKind,
    healths,
    xid_event,
)
from orchestrator.domain.asked.placement import Node
from orchestrator.domain.runs.stored import Page
from orchestrator.domain.value.health import Health
from orchestrator.domain.words.errors import Conflict, NotFound
from orchestrator.services.context import Context
from orchestrator.services.tokens import deed_of

_CLEARED = (EventKind.XID, EventKind.CRASH)


@dataclass(frozen=True)
class DeviceRecord:
    """A device with how it is and what happened to it, newest first."""

    node: str
    device: str
    number: str | None
    name: str | None
    health: Health
    events: Page[DeviceEvent]


def open_events(context: Context) -> Sequence[DeviceEvent]:
    """What counts of what happened to all devices."""
    return context.store.open_device_events(context.clock.now() - CRASHES_COUNT_S)


def health_of(context: Context, node: Node, events: Sequence[DeviceEvent]) -> Mapping[str, Health]:
    """The devices of ``node`` that are not well. ``events``: of ``open_events``."""
    boots = {node.name: node.inventory.get("boot_id")}
    ailments, doubts = _ailments(node), node.inventory.get("gpu_doubts") or {}
    found = healths(events, ailments, doubts, boots, context.catalog.xids, context.clock.now())
    here = {event.device for event in events if event.node == node.name} | {*ailments, *doubts}
    return {device: health for device, health in found.items() if device in here}


def note(context: Context, nodes: Sequence[Node], known: Sequence[DeviceEvent]) -> bool:
    """Store what agents say that is not among ``known`` (``open_events``), and end the ailments that they say no more;
    whether there was anything."""
    now, changed = context.clock.now(), False
    have = {event.id for event in known}
    for node in nodes:
        if "gpu_xids" not in node.inventory:  # not reached yet, or of another version
            continue
        told = [
            xid_event(
                node.name, one["device"], one["at"], one["xid"], node.inventory.get("boot_id"), context.catalog.xids
            )
            for one in node.inventory["gpu_xids"]
        ]
        ailing = _ailments(node)
        before = {
            (event.device, event.text) for event in known if event.node == node.name and event.kind is EventKind.AILMENT
        }
        told += [
            DeviceEvent(node.name, device, now, EventKind.AILMENT, reason)
            for device, reasons in ailing.items()
            for reason in reasons
            if (device, reason) not in before
        ]
        changed |= _are_new(context, node.name, [event for event in told if event.id not in have])
        for device in {device for device, reason in before if reason not in ailing.get(device, ())}:
            changed |= context.store.end_device_events(node.name, device, now, [EventKind.AILMENT])
    return changed


def _are_new(context: Context, node: str, told: Sequence[DeviceEvent]) -> bool:
    """Store them; whether any was new. Agents tell again and again of what was taken back: that is written once."""
    added: list[int] = []
    if told:
        ids = tuple(event.id for event in told)
        context.kept.of(("device events", node), ids, lambda: added.append(context.store.add_device_events(told)))
    return sum(added) > 0


def record_of(context: Context, node: Node, device: str, limit: int, cursor: str | None) -> DeviceRecord:
    """A device of ``node``: by its id, the beginning of it, or the driver's number.

    Raises:
        NotFound: it has none such, now or before.
        Conflict: several ids begin so.
    """
    device = _named(node, device)
    events = context.store.device_events(node.name, device, limit=limit, cursor=cursor)
    there: dict[str, Mapping[str, Any]] = {known.id: known.to_json() for known in node.devices}
    there |= {one["id"]: one for one in _gpus(node)}
    if device not in there and not events.items:
        have = ", ".join(f"{one['number']} ({one['id']})" for one in _gpus(node)) or "no GPUs"
        raise NotFound(f"device of {node.name} (it has {have})", device)
    found = there.get(device, {})
    health = health_of(context, node, open_events(context)).get(device, Health())
    return DeviceRecord(node.name, device, found.get("number"), found.get("name"), health, events)


def clear(context: Context, node: Node, device: str, by: Actor) -> None:
    """Take back what XIDs and crashes made of a device. A run that is on it goes on, and what comes after counts anew;
    what its driver says of it goes on to count as well. Raises as ``record_of``."""
    found, now = record_of(context, node, device, 1, None), context.clock.now()
    noted = DeviceEvent(node.name, found.device, now, EventKind.CLEARED, f"taken back by {by.owner}", ended_at=now)
    deed = deed_of(by, now, "device clear", f"{node.name}/{found.device}")
    context.store.end_device_events(node.name, found.device, now, _CLEARED, noted, deed)
    context.wake()


def _named(node: Node, text: str) -> str:
    ids = [one["id"] for one in _gpus(node)] + [one.id for one in node.devices if one.kind != "cuda"]
    if text in ids:
        return text
    matching = [one["id"] for one in _gpus(node) if one["number"] == text or one["id"].startswith(text)]
    if len(matching) > 1:
        raise Conflict(f"{text} is the beginning of {', '.join(matching)}: give more of it")
    return matching[0] if matching else text


def _gpus(node: Node) -> Sequence[Mapping[str, str]]:
    found: Sequence[Mapping[str, str]] = node.inventory.get("gpus") or ()
    return found


def _ailments(node: Node) -> Mapping[str, Sequence[str]]:
    found: Mapping[str, Sequence[str]] = node.inventory.get("gpu_ailments") or {}
    return found
