"""The state of a device, from what happened to it: XIDs by NVIDIA's catalogue, ailments, crashes."""

from dataclasses import replace

import pytest

from orchestrator.domain.around.device_health import (
    CRASHES_COUNT_S,
    DeviceEvent,
    EventKind,
    crash_events,
    healths,
    xid_event,
)
from orchestrator.domain.asked.placement import Device, NodeShare, Placement
from orchestrator.domain.value.failure import Failure, FailureKind
from orchestrator.domain.value.health import DeviceState, Fault, Health
from orchestrator.services.facts.catalog import load_catalog
from tests.unit import builders as make

XIDS = load_catalog().xids
NOW = 1e9


def states(*events: DeviceEvent, ailments: dict[str, list[str]] | None = None) -> dict[str, str]:
    found = healths(events, ailments or {}, {"GPU-c": ["few links"]}, {"n0": "boot"}, XIDS, NOW)
    assert found.pop("GPU-c") == Health(DeviceState.SUSPECT, ("few links",))
    return {device: f"{health.state}: {'; '.join(health.reasons)}" for device, health in found.items()}


def xid(code: int, boot: str = "boot", **changes: object) -> DeviceEvent:
    return replace(xid_event("n0", "GPU-a", NOW, code, boot, XIDS), **changes)


def crash(cell: str, device: str = "GPU-a", at: float = NOW) -> DeviceEvent:
    return DeviceEvent("n0", device, at, EventKind.CRASH, "net crashed", cell_key=cell, run_id="run_1")


@pytest.mark.parametrize(
    ("code", "state"),
    [
        (79, "bad: XID 79: it has fallen off the bus"),
        (48, "bad: XID 48: an error of its memory beyond correction"),
        (94, "suspect: XID 94: an error that was contained in its program"),
        (74, "suspect: XID 74: an error of an NVLink"),
        (999, "suspect: XID 999: which NVIDIA's catalogue, as tbd has it, does not know"),
        *((code, None) for code in (13, 31, 43, 45, 63, 154)),
    ],
)
def test_an_xid_counts_as_the_catalogue_says(code: int, state: str | None) -> None:
    assert states(xid(code)).get("GPU-a") == state


def test_every_xid_of_the_catalogue_has_one_meaning_and_one_fault() -> None:
    assert len(XIDS) > 60
    assert {xid.fault for xid in XIDS.values()} == set(Fault)


def test_an_error_of_an_earlier_boot_or_one_that_was_taken_back_counts_no_more() -> None:
    assert states(xid(79, boot="the boot before")) == {}
    assert states(xid(79, ended_at=NOW)) == {}


def test_what_the_driver_says_now_makes_bad_whatever_else_there_is() -> None:
    told = states(xid(94), ailments={"GPU-a": ["rows wait"], "GPU-b": []})
    assert told == {"GPU-a": "bad: rows wait; XID 94: an error that was contained in its program"}


def test_two_cells_that_crash_on_one_device_alone_make_it_suspect() -> None:
    assert states(crash("one"), crash("one")) == {}
    told = {"GPU-a": "suspect: 2 different cells crashed on it, and on no other"}
    assert states(crash("one"), crash("two")) == told
    assert states(crash("one"), crash("two"), crash("two", "GPU-b")) == {}  # the second is the cell's own
    assert states(crash("one"), crash("two", at=NOW - CRASHES_COUNT_S - 1)) == {}


def test_a_crash_is_of_the_devices_of_the_ranks_that_it_was_seen_on() -> None:
    gpus = tuple(Device(f"GPU-{index}", "cuda", "H100") for index in range(4))
    attempt = make.attempt(placement=Placement((NodeShare("n0", gpus[:2]), NodeShare("n1", gpus[2:]))))
    run = make.run(attempts=(attempt,))
    crashed = Failure(FailureKind.CRASHED, "x", ranks=(2,))
    assert [(one.node, one.device) for one in crash_events(run, crashed, NOW)] == [("n1", "GPU-2")]
    assert len(crash_events(run, replace(crashed, ranks=()), NOW)) == 4
    assert crash_events(run, replace(crashed, signal="SIGKILL"), NOW) == []
    assert crash_events(run, replace(crashed, kind=FailureKind.DIVERGED), NOW) == []
