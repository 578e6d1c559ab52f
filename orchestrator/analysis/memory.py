"""The greatest memory of an attempt."""

from collections.abc import Sequence

from orchestrator.analysis.events import NodeLog
from orchestrator.domain.measurement import Measurement
from workers.trainer import protocol


def peak_memory(logs: Sequence[NodeLog]) -> Measurement:
    """Return the peak of the rank that had the largest, as its framework reports it.

    Where a framework reports none, the greatest resident set of the attempt's processes on one node, as sampled: that
    misses what comes and goes between two readings, and says so in its method.
    """
    reported = [data for log in logs for _, data in log.of("memory") if data["peak_bytes"] is not None]
    if reported:
        largest = max(reported, key=lambda data: protocol.number(data["peak_bytes"]))
        scope = f"largest of {len(reported)} ranks" if len(reported) > 1 else "the only rank"
        return _measurement(protocol.number(largest["peak_bytes"]), str(largest["method"]), scope)
    sampled = [reading.values.get(("memory_bytes", "attempt")) for log in logs for reading in log.readings]
    known = [value for value in sampled if value is not None]
    if known:
        return _measurement(max(known), "resident set, sampled", "all processes of the attempt on one node")
    return Measurement(
        metric="peak_memory_bytes", value=None, unit="B", method="not measured", reason="nothing read its memory"
    )


def _measurement(value: float, method: str, scope: str) -> Measurement:
    return Measurement(metric="peak_memory_bytes", value=value, unit="B", method=method, scope=scope)
