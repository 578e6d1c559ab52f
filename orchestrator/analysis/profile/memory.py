"""The peak memory of an attempt, by classes: TBD's classes (Zhu et al., IISWC 2018, section 3.4.3)."""

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.analysis.log.events import NodeLog
from orchestrator.domain.value.measurement import Measurement
from orchestrator.domain.value.profile import PAPER_CLASSES, MemoryProfile, Share
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
        before = largest.get("warmup_peak_bytes")
        if before is not None:
            scope += f"; before the first timed step {protocol.number(before) / 1e9:.3f} GB"
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


# Class in the words of the trainers -> the paper's class, and the part of ``dynamic`` that it is.
_PAPER = {
    "weights": "weights",
    "weight_gradients": "weight_gradients",
    "feature_maps": "feature_maps",
    "workspace": "workspace",
    "optimizer_state": "dynamic",
    "input": "dynamic",
    "other": "dynamic",
}


def profile_of(rank: int, chunks: Sequence[Mapping[str, Any]]) -> MemoryProfile:
    """Return where the memory of ``rank`` went, from the data of its ``allocations`` events, in order.

    Nothing is scaled: the shares are those of the list of allocations at the moment of its own maximum, in the steps
    that the measured peak counts, and what that peak has beyond them stands apart.

    Raises:
        ValueError: the list is not complete, or is none that an allocator could have made.
    """
    if not chunks or not chunks[-1]["last"]:
        raise ValueError("the list of allocations breaks off")
    last = chunks[-1]
    levels, counts, counted_from = _Levels(), False, int(last.get("peak_from_step", 0))
    for chunk in chunks:
        names = [str(name) for name in chunk["classes"]]
        for index, size, step in chunk["items"]:
            if not counts and int(step) >= counted_from:
                levels.begin()
                counts = True
            levels.add(names[int(index)], int(size))
    if int(last["peak_bytes"]) <= 0:
        raise ValueError(f"a measured peak of {last['peak_bytes']} bytes")
    outside = last["outside_bytes"]
    return MemoryProfile(
        rank=rank,
        method=str(last["method"]),
        steps=int(last["steps"]),
        classes={name: levels.share(name) for name in PAPER_CLASSES},
        parts={name: levels.share(name) for name, paper in _PAPER.items() if paper == "dynamic"},
        peak_bytes=int(last["peak_bytes"]),
        peak_method=str(last["peak_method"]),
        outside_bytes=None if outside is None else int(outside),
    )


class _Levels:
    """Bytes by class as a list of allocations goes on, each class's maximum, and all of them when the sum was greatest.

    Parts of ``dynamic`` are counted by their own names and under ``dynamic``.
    """

    def __init__(self) -> None:
        self._now: dict[str, int] = dict.fromkeys((*_PAPER, "dynamic"), 0)
        self._most = dict(self._now)
        self._at_peak = dict(self._now)
        self._sum = self._peak = 0

    def begin(self) -> None:
        """Forget what was the most until now: the measured peak counts from here on."""
        self._most, self._at_peak, self._peak = dict(self._now), dict(self._now), self._sum

    def add(self, name: str, size: int) -> None:
        if name not in _PAPER:
            raise ValueError(f"an allocation of the unknown class {name!r}")
        for counted in {name, _PAPER[name]}:
            self._now[counted] += size
            if self._now[counted] < 0:
                raise ValueError(f"more of {counted} is freed than was allocated")
            self._most[counted] = max(self._most[counted], self._now[counted])
        self._sum += size
        if self._sum > self._peak:
            self._peak = self._sum
            self._at_peak = dict(self._now)

    def share(self, name: str) -> Share:
        return Share(self._most[name], self._at_peak[name])


def residual(profiles: Sequence[MemoryProfile]) -> Measurement | None:
    """Return how much of the measured peak is in no class: of the rank for which that is largest."""
    if not profiles:
        return None
    worst = max(profiles, key=lambda profile: abs(profile.residual_ratio))
    return Measurement(
        metric="memory_residual_ratio",
        value=worst.residual_ratio,
        unit="1",
        method=f"1 - sum of the classes at their peak / measured peak; {worst.method}; {worst.peak_method}",
        scope=f"worst of {len(profiles)} ranks" if len(profiles) > 1 else "the only rank",
    )
