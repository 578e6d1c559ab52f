"""From the logs of a calibration to what each device can do at best: pure, as all analysis."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from orchestrator.analysis.log.events import LogError, NodeLog
from orchestrator.analysis.probe import netbench
from orchestrator.analysis.run import validity
from orchestrator.analysis.run.evidence import Evidence
from orchestrator.domain.value.calibration import Calibration
from orchestrator.domain.value.measurement import Analysis, Reason, Validity
from workers.trainer import protocol

ARITHMETICS = ("fp32", "tf32", "bf16", "fp16")
Told = tuple[str, Mapping[str, Any], list[Mapping[str, Any]]]  # node, device, its events


def judged(logs: Sequence[NodeLog], told: Mapping[str, Any], code_version: str) -> Analysis:
    """The analysis of a calibration that ended by itself.

    Raises:
        ValueError, KeyError, TypeError: the logs hold what cannot be.
    """
    evidence = Evidence(logs, None, None, None, netbench.spans(logs))
    rows, problem = calibrations(logs)
    findings = [rule(evidence) for rule in netbench.RULES]
    throttled = validity.throttled_ratio(evidence.spans)
    if throttled:
        findings.append(f"throttled for {100 * throttled:.0f} % of the time: that is what the device can keep up")
    if problem:
        findings.append(Reason("calibration_missing", problem, replaceable=False))
    verdict = Validity.of(findings)
    believed = [] if verdict.broken else rows
    return Analysis(
        validity=verdict,
        circumstances=told,
        summary={"calibrations": len(believed), "flops_per_s": headline(believed)},
        code_version=code_version,
        calibrations=tuple(believed),
    )


def headline(rows: Sequence[Calibration]) -> dict[str, float]:
    """By arithmetic the peak of the slowest device."""
    found: dict[str, float] = {}
    for row in rows:
        found[row.arithmetic] = min(row.flops_per_s, found.get(row.arithmetic, math.inf))
    return found


def calibrations(logs: Sequence[NodeLog]) -> tuple[list[Calibration], str | None]:
    """A row for each device and arithmetic; and what is missing, if anything is."""
    job = logs[0].job
    by_rank: dict[int, list[Mapping[str, Any]]] = {}
    for log in logs:
        for rank, data in log.of("calibration"):
            by_rank.setdefault(int(rank or 0), []).append(data)
    workers = [process for process in job["processes"] if process["ranks"]]
    silent = [min(process["ranks"]) for process in workers if min(process["ranks"]) not in by_rank]
    if silent or not workers:
        return [], f"ranks {silent} report no product"
    rows: list[Calibration] = []
    for process in workers:
        events = by_rank[min(process["ranks"])]
        for arithmetic in sorted({str(data["arithmetic"]) for data in events}, key=_order):
            own = [data for data in events if data["arithmetic"] == arithmetic]
            rows.append(_best(process["node"], process["devices"][0], own, len(workers)))
    return rows, None


def _order(arithmetic: str) -> int:
    if arithmetic not in ARITHMETICS:
        raise LogError(f"a calibration in the unknown arithmetic {arithmetic!r}")
    return ARITHMETICS.index(arithmetic)


def _best(node: str, device: Mapping[str, Any], events: Sequence[Mapping[str, Any]], devices: int) -> Calibration:
    rates = [_rate(data) for data in events]
    best = int(np.argmax([rate for rate, _ in rates]))
    rate, spread = rates[best]
    data = events[best]
    m, n, k = (int(side) for side in data["shape"])
    return Calibration(
        node=node,
        device_id=str(device["id"]),
        device_kind=str(device["kind"]),
        device_name=str(device["name"]),
        cores=len(device.get("cores") or ()),
        arithmetic=str(data["arithmetic"]),
        flops_per_s=rate,
        shape=(m, n, k),
        repetitions=len(data["duration_s"]),
        spread_ratio=spread,
        loaded_s=protocol.number(data["loaded_s"]),
        devices=devices,
        library=str(data["library"]),
        rates={"x".join(map(str, one["shape"])): found for one, (found, _) in zip(events, rates, strict=True)},
    )


def _rate(data: Mapping[str, Any]) -> tuple[float, float]:
    """(operations a second of the median repetition, distance of the 10th and 90th percentile over the median)."""
    durations = np.array([protocol.number(value) for value in data["duration_s"]], float)
    flops = protocol.number(data["flops"])
    if not len(durations) or not (np.isfinite(durations) & (durations > 0)).all() or not 0 < flops < math.inf:
        raise LogError(f"a calibration that cannot be: {dict(data, duration_s=None)}")
    low, middle, high = (float(value) for value in np.quantile(durations, (0.1, 0.5, 0.9)))
    return flops / middle, (high - low) / middle
