"""What pages draw of a run over its time: how long its steps took, and how busy its machines were meanwhile.

Seconds count from the beginning of the first step, on each node by its own monotonic clock: ranks begin together, and
no two clocks need be compared.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence

from orchestrator.analysis.log.events import NodeLog
from orchestrator.domain.value.time_series import Points, TimeSeries

# What is added up over the cores, or over the GPUs, of a node: how many of them were busy.
_BUSY = {"core_active_s": "cpu_cores_busy", "busy_ratio": "gpus_busy"}


def time_series(logs: Sequence[NodeLog]) -> tuple[TimeSeries, ...]:
    """``step_time_s`` of each rank, a point an interval at its end (seconds a step), and ``cpu_cores_busy`` and
    ``gpus_busy`` of each node, a point a reading. Of a node on which no step was reported there is nothing."""
    found: list[TimeSeries] = []
    for log in logs:
        steps = [item for item in log.intervals if item.n > 0]
        if not steps:
            continue
        began = min(item.start_t for item in steps)
        for rank in sorted({item.rank for item in steps}):
            own = ((item.end_t - began, item.duration_s / item.n) for item in steps if item.rank == rank)
            found.append(_of("step_time_s", f"rank {rank}", own))
        read = [one for one in log.readings if one.window_s > 0]
        busy = [(reading.end_t - began, _busy(reading.values, reading.window_s)) for reading in read]
        for metric in sorted({name for _, values in busy for name in values}):
            found.append(_of(metric, log.node, ((at, values[metric]) for at, values in busy if metric in values)))
    return tuple(found)


def phases(logs: Sequence[NodeLog], first_counted: int) -> dict[str, float]:
    """When, in seconds as above, the warm-up ended, which is whatever came before the step ``first_counted``, and when
    the last step did; on whichever node it was latest."""
    ends = {"warm-up": 0.0, "timed": 0.0}
    for log in logs:
        began = min((item.start_t for item in log.intervals), default=0.0)
        for item in log.intervals:
            end_s = item.end_t - began
            ends["timed"] = max(ends["timed"], end_s)
            if item.phase == "warmup" or item.first_step < first_counted:
                ends["warm-up"] = max(ends["warm-up"], end_s)
    return ends


def _of(metric: str, subject: str, found: Iterable[tuple[float, float]]) -> TimeSeries:
    ordered = sorted(found)
    values = array("d", (value for _, value in ordered))
    return TimeSeries(metric, subject, Points(array("d", (at for at, _ in ordered)), values, values))


def _busy(values: Mapping[tuple[str, str], float | None], window_s: float) -> dict[str, float]:
    """How many cores and GPUs were busy in the window of a reading, by metric; what was unreadable counts for none."""
    found: dict[str, float] = {}
    for (metric, _), value in values.items():
        if metric in _BUSY and value is not None:
            share = value / window_s if metric.endswith("_s") else value
            found[_BUSY[metric]] = found.get(_BUSY[metric], 0.0) + share
    return found
