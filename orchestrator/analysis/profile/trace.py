"""One timeline of a run for Perfetto or chrome://tracing: steps, kernels, exchanges and telemetry of all ranks.

The format is the JSON of Chrome's trace events ("Trace Event Format", Google, 2016): complete events (``X``), counters
(``C``) and metadata (``M``); times are microseconds on the monotonic clock of the node that leads, from the opening of
its log, or from what began before it. Each rank is a process of the trace, and so is the telemetry of each node.

Events of one thread must lie within each other or apart; where a profiler's do neither, the later one goes to a further
thread of the same name.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.analysis.log import clocks
from orchestrator.analysis.profile import kernels
from orchestrator.domain.value.profile import NO_KINDS, KernelKinds
from workers.trainer import protocol

Entries = Sequence[Mapping[str, Any]]
Event = dict[str, Any]

# What of a log becomes part of a trace: everything else need not be read for it.
KINDS = (
    "log_opened",
    "clock",
    "built",
    "interval",
    "loss",
    "activity",
    "spans",
    "layers",
    "profiled",
    "reading",
)

# Quantities of a reading that are amounts within its window: shown per second.
_AMOUNTS = ("_s", "_j")
_AMOUNTS_OF_BYTES = ("swap_in_bytes", "sent_bytes", "received_bytes", "read_bytes", "written_bytes")

_TELEMETRY_PID = 1_000_000
_STEPS, _PHASES, _EXCHANGE = "steps", "profiling phases", "gradient exchange of one step"


@dataclass
class _Track:
    """One thread of the trace: its events as (start_s, end_s, name, category, arguments)."""

    spans: list[tuple[float, float, str, str, Mapping[str, Any]]] = field(default_factory=list)


def trace_of(logs: Mapping[str, Entries], kinds: KernelKinds = NO_KINDS) -> dict[str, Any]:
    """Return the trace of an attempt (node -> the entries of its log, in order; those of ``KINDS`` will do).

    Args:
        kinds: what kind of work each kernel does, by its name.

    Raises:
        ValueError: there is no log, or one does not begin with ``log_opened``.
    """
    axis = clocks.axis_of(logs)
    trace = _Trace(axis, {node: protocol.number(entries[0]["t"]) for node, entries in logs.items()}, kinds)
    job = logs[axis.leader][0]["data"]["job"]
    trace.framework = str(job["plan"].get("framework") or "")
    trace.gpu = any(device["kind"] == "cuda" for process in job["processes"] for device in process["devices"])
    for node, entries in sorted(logs.items()):
        trace.add(node, entries)
    return {"traceEvents": trace.events(), "displayTimeUnit": "ms", "otherData": trace.other()}


class _Trace:
    """Collects what the logs tell, by rank and thread."""

    def __init__(self, axis: clocks.Axis, opened: Mapping[str, float], kinds: KernelKinds) -> None:
        self._axis = axis
        self._kinds = kinds
        self._zero_s = min(axis.common(node, t)[0] for node, t in opened.items())
        self._end_s = dict(opened)
        self._tracks: dict[int, dict[str, _Track]] = {}
        self._counters: list[Event] = []
        self._nodes: list[str] = []
        self._node_of: dict[int, str] = {}
        self.framework = ""
        self.gpu = False

    def add(self, node: str, entries: Entries) -> None:
        self._nodes.append(node)
        takers = {
            "built": self._built,
            "interval": self._interval,
            "loss": self._loss,
            "activity": self._activity,
            "spans": self._spans,
            "layers": self._layers,
            "profiled": self._profiled,
            "reading": self._reading,
        }
        for entry in entries:
            self._end_s[node] = max(self._end_s[node], protocol.number(entry["t"]))
            taker = takers.get(entry["kind"])
            if taker is not None:
                taker(node, protocol.number(entry["t"]), entry.get("rank") or 0, entry["data"])

    def _span(
        self, node: str, rank: int, thread: str, start_s: float, end_s: float, name: str, category: str, **more: Any
    ) -> None:
        self._node_of[rank] = node
        start, end = self._axis.common(node, start_s)[0], self._axis.common(node, end_s)[0]
        track = self._tracks.setdefault(rank, {}).setdefault(thread, _Track())
        track.spans.append((start - self._zero_s, end - self._zero_s, name, category, more))

    def _counter(self, node: str, pid: int, t: float, name: str, values: Mapping[str, float]) -> None:
        at = self._axis.common(node, t)[0] - self._zero_s
        shown = {of: _level(value) for of, value in values.items()}
        self._counters.append({"ph": "C", "name": name, "pid": pid, "tid": 0, "ts": _us(at), "args": shown})

    def _built(self, node: str, t: float, rank: int, data: Mapping[str, Any]) -> None:
        self._span(node, rank, _STEPS, t - protocol.number(data["build_s"]), t, "build", "build")

    def _interval(self, node: str, t: float, rank: int, data: Mapping[str, Any]) -> None:
        first, n = int(data["first_step"]), int(data["n"])
        name = f"step {first}" if n == 1 else f"steps {first} to {first + n - 1}"
        start_s = t - protocol.number(data["duration_s"])
        self._span(node, rank, _STEPS, start_s, t, name, str(data["phase"]), work=data["work"])

    def _loss(self, node: str, t: float, rank: int, data: Mapping[str, Any]) -> None:
        value = protocol.number(data["value"])
        if math.isfinite(value):
            self._counter(node, rank, t, "loss", {"loss": value})

    def _activity(self, node: str, t: float, rank: int, data: Mapping[str, Any]) -> None:
        took_s = protocol.number(data["elapsed_s"] if data.get("cost_s") is None else data["cost_s"])
        self._span(node, rank, _PHASES, t - took_s, t, "activity", "profile", steps=data["steps"])

    def _profiled(self, node: str, t: float, rank: int, data: Mapping[str, Any]) -> None:
        elapsed_s, begun_t = protocol.number(data["elapsed_s"]), data.get("begun_t")
        start_s = t - elapsed_s if begun_t is None else protocol.number(begun_t)
        name = str(data["profile"])
        self._span(node, rank, _PHASES, start_s, start_s + elapsed_s, name, "profile", steps=data["steps"])

    def _spans(self, node: str, t: float, rank: int, data: Mapping[str, Any]) -> None:
        for name, lane, start, duration in data["items"]:
            start_s = protocol.number(start)
            own = str(data["names"][int(name)])
            kind = kernels.kind_of(self._kinds, self.framework, own, self.gpu)
            end_s = start_s + protocol.number(duration)
            self._span(node, rank, str(data["lanes"][int(lane)]), start_s, end_s, own, kind)

    def _layers(self, node: str, t: float, rank: int, data: Mapping[str, Any]) -> None:
        """Exchanges are told from the start of a backward pass: where its moment is not known (``backward_t``), from
        the start of the phase."""
        at_t = data.get("backward_t")
        base_s = t - protocol.number(data["elapsed_s"]) if at_t is None else protocol.number(at_t)
        for one in data["exchanges"]:
            start_s, end_s = (base_s + protocol.number(one[key]) for key in ("start_s", "end_s"))
            self._span(
                node, rank, _EXCHANGE, start_s, end_s, str(one["name"]), "exchange", bytes=one["bytes"],
                moment="known" if at_t is not None else "within the phase not known",
            )  # fmt: skip

    def _reading(self, node: str, t: float, rank: int, data: Mapping[str, Any]) -> None:
        window_s = protocol.number(data["window_s"])
        by_metric: dict[str, dict[str, float]] = {}
        for metric, subject, value in data["values"]:
            if value is not None and window_s > 0:
                name, shown = _shown(str(metric), protocol.number(value), window_s)
                by_metric.setdefault(name, {})[str(subject)] = shown
        pid = _TELEMETRY_PID + self._nodes.index(node)
        for name, values in by_metric.items():
            if all(math.isfinite(value) for value in values.values()):
                self._counter(node, pid, t - window_s, name, values)

    def events(self) -> list[Event]:
        """Metadata first, then everything in the order of time; no time is below 0, for Perfetto drops what is."""
        timed: list[Event] = list(self._counters)
        named: list[Event] = []
        for rank, tracks in sorted(self._tracks.items()):
            named += _process(rank, f"rank {rank} on {self._node_of[rank]}", rank)
            threads = [(name, lane) for name, track in tracks.items() for lane in _lanes(track.spans)]
            for tid, (name, lane) in enumerate(threads, start=1):
                named.append(_meta("thread_name", rank, tid, name=name))
                named.append(_meta("thread_sort_index", rank, tid, sort_index=tid))
                timed += (_complete(rank, tid, span) for span in lane)
        for index, node in enumerate(self._nodes):
            named += _process(_TELEMETRY_PID + index, f"telemetry of {node}", _TELEMETRY_PID + index)
        earliest = min((event["ts"] for event in timed), default=0.0)
        if earliest < 0:
            timed = [event | {"ts": round(event["ts"] - earliest, 3)} for event in timed]
        return [*named, *sorted(timed, key=lambda event: (event["ts"], -event.get("dur", 0.0)))]

    def other(self) -> dict[str, Any]:
        """Whose clock it is, and how far the other nodes' times may be wrong."""
        uncertain = {node: self._axis.common(node, t)[1] for node, t in self._end_s.items()}
        return {"clock": f"CLOCK_MONOTONIC of {self._axis.leader}", "uncertainty_s": uncertain}


def _shown(metric: str, value: float, window_s: float) -> tuple[str, float]:
    """(name, value) of a counter."""
    if metric in _AMOUNTS_OF_BYTES or metric.endswith(_AMOUNTS):
        return f"{metric} per s", value / window_s
    return metric, value


def _lanes(spans: Iterable[tuple[float, float, str, str, Mapping[str, Any]]]) -> Iterator[list[Any]]:
    """Deal ``spans`` out so that those of one list lie within each other or apart."""
    lanes: list[tuple[list[Any], list[float]]] = []  # the spans of a thread, and the ends of those still open
    for span in sorted(spans, key=lambda one: (one[0], -one[1])):
        fitting = (lane for lane in lanes if _fits(span, lane[1]))
        lane = next(fitting, None)
        if lane is None:
            lane = ([], [])
            lanes.append(lane)
        lane[0].append(span)
        lane[1].append(span[1])
    return (found for found, _ in lanes)


def _fits(span: tuple[float, float, str, str, Mapping[str, Any]], open_ends: list[float]) -> bool:
    """Whether ``span`` lies after or within those of a thread that are still open; ends that have passed are let go."""
    while open_ends and open_ends[-1] <= span[0]:
        open_ends.pop()
    return not open_ends or span[1] <= open_ends[-1]


def _complete(pid: int, tid: int, span: tuple[float, float, str, str, Mapping[str, Any]]) -> Event:
    start_s, end_s, name, category, more = span
    ts, end = _us(start_s), _us(end_s)
    event = {"ph": "X", "name": name, "cat": category, "pid": pid, "tid": tid, "ts": ts, "dur": round(end - ts, 3)}
    return event | {"args": dict(more)}


def _process(pid: int, name: str, index: int) -> list[Event]:
    return [_meta("process_name", pid, 0, name=name), _meta("process_sort_index", pid, 0, sort_index=index)]


def _meta(what: str, pid: int, tid: int, **arguments: Any) -> Event:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": arguments}


def _level(value: float) -> float:
    """A level of a counter, to nine digits: more than 18 of them after the point overflow Perfetto's reader."""
    return int(value) if value == int(value) else float(f"{value:.9g}")


def _us(seconds: float) -> float:
    """Microseconds, to the nanosecond."""
    return round(seconds * 1e6, 3)
