"""How well a GPU is: what happened to it, and the state that follows. Pure: no store, no clock."""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from orchestrator.domain.around.access import Deed
from orchestrator.domain.runs.run import Run
from orchestrator.domain.runs.stored import Page
from orchestrator.domain.value.failure import Failure, is_of_program
from orchestrator.domain.value.health import DeviceState, Fault, Health, Xid
from orchestrator.domain.words.plain import Plain

# Crashes that are older speak of another time. A judgement.
CRASHES_COUNT_S = 7 * 86400.0
# Crashes of so many different cells make a device suspect.
CRASHED_CELLS = 2


class EventKind(StrEnum):
    """What may happen to a device: an XID; the driver says that it is not well; a training on it crashed; a person took
    suspicions back."""

    XID = "xid"
    AILMENT = "ailment"
    CRASH = "crash"
    CLEARED = "cleared"


@dataclass(frozen=True)
class DeviceEvent(Plain):
    """One thing that happened to a device at ``at`` (seconds since the epoch).

    ``code``: of an XID. ``boot_id``: the boot of its host in which it happened. ``cell_key``, ``run_id``: of a crash.
    ``ended_at``: since when it counts no more: it was taken back, or the driver no longer says so.
    """

    node: str
    device: str
    at: float
    kind: EventKind
    text: str
    code: int | None = None
    boot_id: str | None = None
    cell_key: str | None = None
    run_id: str | None = None
    ended_at: float | None = None

    @property
    def id(self) -> str:
        """The same for the same event, however often it is told."""
        said = (self.node, self.device, repr(self.at), self.kind, self.text, self.run_id)
        return "dev_" + hashlib.sha256(repr(said).encode()).hexdigest()[:20]


def xid_event(
    node: str, device: str, at: float, code: int, boot_id: str | None, known: Mapping[int, Xid]
) -> DeviceEvent:
    """An XID that a node has told of."""
    found = known.get(code)
    meaning = found.meaning if found else "which NVIDIA's catalogue, as tbd has it, does not know"
    return DeviceEvent(node, device, at, EventKind.XID, f"XID {code}: {meaning}", code, boot_id)


def crash_events(run: Run, failure: Failure, at: float) -> list[DeviceEvent]:
    """The crash of the latest attempt of ``run``, for each GPU on which it was seen; none where it may be nobody's but
    the program's that was killed."""
    if run.attempt is None or is_of_program(failure):
        return []
    held = [(share.node, device) for share in run.attempt.placement.shares for device in share.devices]
    ranks = failure.ranks or range(len(held))
    seen = [held[rank] for rank in ranks if rank < len(held) and held[rank][1].kind == "cuda"]
    return [
        DeviceEvent(
            node,
            device.id,
            at,
            EventKind.CRASH,
            f"{run.plan.model} in {run.plan.framework} crashed: {failure.message[:200]}",
            cell_key=run.plan.cell_key,
            run_id=run.id,
        )
        for node, device in seen
    ]


def crashed_on(run: Run) -> set[str]:
    """The GPUs on which earlier attempts of ``run`` crashed."""
    crashed = [one.placement for one in run.attempts if one.failure is not None and not is_of_program(one.failure)]
    return {device.id for placement in crashed for share in placement.shares for device in share.devices}


def healths(
    events: Sequence[DeviceEvent],
    ailments: Mapping[str, Sequence[str]],
    doubts: Mapping[str, Sequence[str]],
    boots: Mapping[str, str | None],
    known: Mapping[int, Xid],
    now: float,
) -> dict[str, Health]:
    """Device -> how it is, for those that are not well.

    Args:
        events: those that have not ended, of all devices.
        ailments: device -> what its driver says now.
        doubts: device -> what is amiss with its links now.
        boots: node -> its boot. An XID of an earlier one counts no more.
        known: the catalogue.
    """
    events = [event for event in events if event.ended_at is None]
    bad: dict[str, list[str]] = {device: list(reasons) for device, reasons in ailments.items() if reasons}
    suspect: dict[str, list[str]] = {device: list(reasons) for device, reasons in doubts.items() if reasons}
    for event in events:
        if event.kind is EventKind.XID and event.boot_id == boots.get(event.node, event.boot_id):
            xid = known.get(event.code) if event.code is not None else None
            fault = xid.fault if xid else Fault.DOUBTFUL
            where = {Fault.DEVICE: bad, Fault.DOUBTFUL: suspect}.get(fault)
            if where is not None and event.text not in where.setdefault(event.device, []):
                where[event.device].append(event.text)
    for device, reason in _crashed(events, now):
        suspect.setdefault(device, []).append(reason)
    found = {device: Health(DeviceState.SUSPECT, tuple(reasons)) for device, reasons in suspect.items()}
    for device, reasons in bad.items():
        found[device] = Health(DeviceState.BAD, (*reasons, *suspect.get(device, ())))
    return found


def _crashed(events: Iterable[DeviceEvent], now: float) -> Iterator[tuple[str, str]]:
    """(device, reason) of those on which different cells have crashed. A cell that crashes elsewhere too says nothing
    of a device."""
    devices: dict[str, set[str]] = {}
    for event in events:
        if event.kind is EventKind.CRASH and event.cell_key and event.at >= now - CRASHES_COUNT_S:
            devices.setdefault(event.cell_key, set()).add(event.device)
    alone = [next(iter(found)) for found in devices.values() if len(found) == 1]
    for device in sorted(set(alone)):
        if (cells := alone.count(device)) >= CRASHED_CELLS:
            yield device, f"{cells} different cells crashed on it, and on no other"


class DeviceStore(Protocol):
    """What is stored of devices; part of ``orchestrator.domain.ports.Store``."""

    def add_device_events(self, events: Sequence[DeviceEvent]) -> int:
        """Store events; those that are there already are passed over. How many were new."""

    def open_device_events(self, crashes_after: float) -> Sequence[DeviceEvent]:
        """Those of all devices that have not ended, oldest first; crashes since ``crashes_after`` only."""

    def device_events(self, node: str, device: str, *, limit: int = 50, cursor: str | None = None) -> Page[DeviceEvent]:
        """All of a device, newest first.

        Raises:
            InvalidRequest: the cursor is not one of ours.
        """

    def end_device_events(
        self,
        node: str,
        device: str,
        at: float,
        kinds: Collection[EventKind],
        noted: DeviceEvent | None = None,
        deed: Deed | None = None,
    ) -> bool:
        """Say that the open events of ``kinds`` of a device count no more, and store ``noted`` where there were any;
        whether there were."""
