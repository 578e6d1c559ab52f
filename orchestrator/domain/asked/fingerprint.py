"""The four parts of a fingerprint: what was measured, with what, on what, and under which circumstances.

*workload* keys a series and has to be equal where two results are compared. *subject* is what one compares: versions
and code. *rig* is the machine: where it changes, results say so. *condition* (loads, clocks, temperatures) keys
nothing.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from orchestrator.domain.asked.fields import FIELDS, in_order
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.words.plain import Plain

# Fields of a plan that belong to the workload; what is no part of it says where and how long. Where batches lie at the
# usual place, a device warms up as long as usual, and where a run had the whole node, a plan does not say so: the
# series is the one it always was.
WORKLOAD_FIELDS = in_order(
    (field for field in FIELDS if field.workload),
    "model options size data data_sha256 per_device_batch_size global_batch_size precision topology fabric strategy "
    "framework device seed mode target evaluate_every data_on exclusive warm_up_s",
)

# Settings of a machine that move speed, as a node's provenance has them (``workers.node.speed_settings``). Older logs
# lack some of them: what a log does not tell is left out.
MACHINE_SETTINGS = (
    "transparent_hugepages",
    "transparent_hugepages_defrag",
    "reserved_huge_pages",
    "address_space_randomization",
    "smt",
    "frequency_boost",
    "energy_preference",
    "numa_balancing",
    "preloaded",
    "cgroup",
)
# And those of its GPUs, as the driver tells them (``workers.node.telemetry.nvml``).
GPU_SETTINGS = ("ecc", "vbios", "application_clock_hz", "pcie", "nvlinks")
# What a training inherits from the agent that starts it: allocator, loader, libraries. A choice, hence the subject's.
INHERITED = "inherited"


def fingerprint(plan: Plan, circumstances: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fingerprint of a run: ``workload``, ``subject``, ``rig``, ``condition`` and a key of the first three.

    Args:
        plan: what was to be run.
        circumstances: what the logs tell (``Analysis.circumstances``): ``versions``, ``mathematics``, ``interpreter``,
            ``devices`` (those held), ``nodes`` (node -> {inventory, provenance}), ``condition``, and ``data_sha256`` of
            data that is not the same everywhere. What a broken log does not tell is None.
    """
    parts: dict[str, Any] = {
        "workload": workload_of(plan) | _data(circumstances) | _devices(circumstances),
        "subject": _subject(circumstances),
        "rig": _rig(circumstances),
    }
    keys = {f"{name}_key": _digest(part) for name, part in parts.items()}
    return {**parts, "condition": dict(circumstances.get("condition") or {}), **keys}


def workload_of(plan: Plan) -> dict[str, Any]:
    """What a plan says of the workload; the devices that it ran on belong to it too."""
    planned = plan.identity()
    found = {field: planned[field] for field in WORKLOAD_FIELDS if field in planned}
    return found | ({"confirms": True} if plan.pins else {})  # what was made again is no session of the series


def _data(circumstances: Mapping[str, Any]) -> dict[str, Any]:
    """Of data that each machine makes from what it has, which it was: known only when it was made."""
    found = circumstances.get("data_sha256")
    return {"data_sha256": found} if found else {}


def _devices(circumstances: Mapping[str, Any]) -> dict[str, Any]:
    devices = circumstances.get("devices") or []
    return {
        "device_models": sorted({device["name"] for device in devices}),
        "cores_per_device": sorted({len(device.get("cores") or ()) for device in devices}),
    }


def _subject(circumstances: Mapping[str, Any]) -> dict[str, Any]:
    versions = circumstances.get("versions") or {}
    interpreter = circumstances.get("interpreter") or {}
    provenance = [node.get("provenance") or {} for node in (circumstances.get("nodes") or {}).values()]
    return (
        _inherited(circumstances)
        | _script(circumstances)
        | _suite(circumstances)
        | {
            "framework": versions.get("framework"),
            "framework_version": versions.get("version"),
            "libraries": versions.get("libraries") or {},
            "mathematics": circumstances.get("mathematics") or {},
            "interpreter": interpreter.get("name"),
            "interpreter_definition": interpreter.get("definition"),
            "code_commits": sorted({item.get("commit") or "unknown" for item in provenance}),
            "code_dirty": any(item.get("dirty") for item in provenance),
        }
    )


def _script(circumstances: Mapping[str, Any]) -> dict[str, Any]:
    """Of a person's own script: its commit, and the digest of what differs from it."""
    told = circumstances.get("script") or {}
    pinned = {"pinned": True} if told.get("pinned") else {}
    return {"script": {key: told.get(key) for key in ("commit", "dirty_sha256")} | pinned} if told else {}


def _suite(circumstances: Mapping[str, Any]) -> dict[str, Any]:
    """Of a model from a folder of ``TBD_SUITE_PATH``: its commit, and the digest of what differs from it."""
    nodes = (circumstances.get("nodes") or {}).values()
    told = [found for node in nodes if (found := (node.get("provenance") or {}).get("suite"))]
    return {"suite": told[0] if all(one == told[0] for one in told) else told} if told else {}


def _inherited(circumstances: Mapping[str, Any]) -> dict[str, Any]:
    """What the processes inherited: one set of facts, or one for each node where the nodes do not agree."""
    told = {
        name: (node.get("provenance") or {}).get("process") for name, node in (circumstances.get("nodes") or {}).items()
    }
    known = {name: facts for name, facts in told.items() if facts is not None}
    if not known:
        return {}
    first, *others = known.values()
    return {INHERITED: first if all(facts == first for facts in others) else known}


def _rig(circumstances: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "nodes": {name: _rig_of(node) for name, node in (circumstances.get("nodes") or {}).items()},
        "device_ids": [device["id"] for device in circumstances.get("devices") or []],
    }


def _rig_of(node: Mapping[str, Any]) -> dict[str, Any]:
    inventory, provenance = node.get("inventory") or {}, node.get("provenance") or {}
    keys = ("hostname", "cpu_model", "cores", "physical_cores", "memory_bytes", "kernel", "driver", "governor")
    settings = {key: provenance[key] for key in MACHINE_SETTINGS if provenance.get(key) is not None}
    power = [device.get("power_limit_w") for device in inventory.get("devices") or []]
    # Where no core is kept the key is left out: such a rig is the one it was before there was a choice.
    kept = {key: inventory[key] for key in ("housekeeping_cores",) if inventory.get(key)}
    # So it is with what older logs do not tell of GPUs.
    told = [{key: device[key] for key in GPU_SETTINGS if key in device} for device in inventory.get("devices") or []]
    gpus = {"gpus": told} if any(told) else {}
    return {key: inventory.get(key) for key in keys} | {"power_limits_w": power} | settings | kept | gpus


@dataclass(frozen=True)
class Changed(Plain):
    """A field of the subject or the rig that is not what it was."""

    part: Literal["subject", "rig"]
    field: str
    before: Any
    after: Any


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield (field, its value in ``one``, in ``other``) for everything in which two of a part are not the same.

    A dot leads into what is nested. A setting that only one of them recorded tells no difference.
    """
    for key in sorted({*one, *other}):
        mine, theirs = one.get(key), other.get(key)
        unrecorded = key in (*MACHINE_SETTINGS, INHERITED, "gpus") and (key not in one or key not in other)
        if mine == theirs or unrecorded:
            continue
        if isinstance(mine, Mapping) and isinstance(theirs, Mapping):
            yield from ((f"{key}.{field}", a, b) for field, a, b in differences(mine, theirs))
        else:
            yield key, mine, theirs


def _digest(part: Any) -> str:
    return hashlib.sha256(json.dumps(part, sort_keys=True, default=str).encode()).hexdigest()[:16]
