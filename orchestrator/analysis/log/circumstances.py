"""The inputs of a fingerprint, from the logs: where an attempt ran, and with what. Nothing is judged here."""

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.analysis.log import nccl, windows
from orchestrator.analysis.log.events import NodeLog
from orchestrator.analysis.log.windows import span_of


def circumstances(logs: Sequence[NodeLog]) -> dict[str, Any]:
    """Return what ``domain.fingerprint`` reads; what a log does not tell is absent or empty."""
    job = logs[0].job
    built = _first(logs, "built")
    return {
        "versions": dict(_first(logs, "versions")),
        "mathematics": built.get("mathematics") or {},
        "interpreter": {key: job["interpreter"].get(key) for key in ("name", "definition", "python")},
        "script": job.get("script") or {},
        "devices": [device for process in job["processes"] for device in process["devices"]],
        "nodes": {log.node: _node(log) for log in logs},
        "exchange": nccl.facts_of(logs),
        "condition": {log.node: _condition(log) for log in logs},
        **_data(logs),
    }


def _data(logs: Sequence[NodeLog]) -> dict[str, Any]:
    """``data_sha256`` of data that is not the same everywhere: the digest, or those of the nodes where they differ."""
    if not (logs[0].job.get("dataset") or {}).get("varies"):
        return {}
    found = sorted({data["sha256"] for log in logs for _, data in log.of("dataset")})
    return {"data_sha256": found[0] if len(found) == 1 else ",".join(found)} if found else {}


def _first(logs: Sequence[NodeLog], kind: str) -> Mapping[str, Any]:
    return next((data for log in logs for _, data in log.of(kind)), {})


def _node(log: NodeLog) -> dict[str, Any]:
    inventory, provenance = dict(log.opened["inventory"] or {}), dict(log.opened["provenance"] or {})
    code = provenance.get("tbd") or {}
    inventory.setdefault("driver", inventory.get("driver_version"))
    return {
        "inventory": inventory,
        "provenance": {"commit": code.get("commit"), "dirty": code.get("dirty"), **provenance},
    }


def _condition(log: NodeLog) -> dict[str, float]:
    """Means over the timed phase of what may explain a difference but never keys anything."""
    span = span_of(log.intervals)
    if span is None:
        return {}
    found = {}
    for metric in ("cpu_frequency_hz", "temperature_c", "sm_clock_hz", "memory_clock_hz"):
        for subject in windows.subjects(log.readings, metric):
            value = windows.mean(log.readings, span, metric, subject)
            if value is not None:
                found[f"{metric} {subject}"] = value
    return found
