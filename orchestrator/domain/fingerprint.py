"""The four parts of a fingerprint: what was measured, with what, on what, and under which circumstances.

DESIGN: *workload* keys a series and must match to compare; *subject* is what one compares; *rig* is annotated at its
borders; *condition* never keys anything.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from orchestrator.domain.plan import Plan

# Fields of a plan that belong to the workload. ``placement``, limits and names of nodes say where and how long.
WORKLOAD_FIELDS = (
    "model",
    "options",
    "size",
    "data",
    "per_device_batch_size",
    "global_batch_size",
    "precision",
    "topology",
    "fabric",
    "strategy",
    "framework",
    "device",
    "seed",
    "mode",
)


def fingerprint(plan: Plan, observed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fingerprint of a run: ``workload``, ``subject``, ``rig``, ``condition`` and a key of the first three.

    Args:
        plan: what was to be run.
        observed: what the logs tell (``Analysis.observed``): ``versions``, ``mathematics``, ``interpreter``,
            ``devices`` (those held), ``nodes`` (node -> {inventory, provenance}) and ``condition``. What a broken log
            does not tell is None.
    """
    planned = plan.to_json()
    parts: dict[str, Any] = {
        "workload": {field: planned[field] for field in WORKLOAD_FIELDS} | _devices(observed),
        "subject": _subject(observed),
        "rig": _rig(observed),
    }
    keys = {f"{name}_key": _digest(part) for name, part in parts.items()}
    return {**parts, "condition": dict(observed.get("condition") or {}), **keys}


def _devices(observed: Mapping[str, Any]) -> dict[str, Any]:
    devices = observed.get("devices") or []
    return {
        "device_models": sorted({device["name"] for device in devices}),
        "cores_per_device": sorted({len(device.get("cores") or ()) for device in devices}),
    }


def _subject(observed: Mapping[str, Any]) -> dict[str, Any]:
    versions = observed.get("versions") or {}
    interpreter = observed.get("interpreter") or {}
    provenance = [node.get("provenance") or {} for node in (observed.get("nodes") or {}).values()]
    return {
        "framework": versions.get("framework"),
        "framework_version": versions.get("version"),
        "libraries": versions.get("libraries") or {},
        "mathematics": observed.get("mathematics") or {},
        "interpreter": interpreter.get("name"),
        "interpreter_definition": interpreter.get("definition"),
        "code_commits": sorted({item.get("commit") or "unknown" for item in provenance}),
        "code_dirty": any(item.get("dirty") for item in provenance),
    }


def _rig(observed: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "nodes": {name: _rig_of(node.get("inventory") or {}) for name, node in (observed.get("nodes") or {}).items()},
        "device_ids": [device["id"] for device in observed.get("devices") or []],
    }


def _rig_of(inventory: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("hostname", "cpu_model", "cores", "physical_cores", "memory_bytes", "kernel", "driver", "governor")
    return {key: inventory.get(key) for key in keys} | {
        "power_limits_w": [device.get("power_limit_w") for device in inventory.get("devices") or []]
    }


def _digest(part: Any) -> str:
    return hashlib.sha256(json.dumps(part, sort_keys=True, default=str).encode()).hexdigest()[:16]
