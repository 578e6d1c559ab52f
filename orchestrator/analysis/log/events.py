"""Stored log entries become typed intervals and readings. Nothing is judged here.

A log that does not follow the protocol raises ``LogError``; whoever analyses it makes an ``invalid_log`` of that.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from orchestrator.analysis.log import plausible
from orchestrator.domain.words import untrusted
from workers.trainer import protocol


class LogError(ValueError):
    """A log that cannot be read; the message names the entry, whose number (1 …) is ``entry`` where it is one."""

    def __init__(self, message: str, entry: int | None = None) -> None:
        super().__init__(message)
        self.entry = entry


@dataclass(frozen=True)
class Interval:
    """What one rank's loop reported: ``n`` steps from ``first_step`` on; ``end_t`` on the host's monotonic clock, and
    ``wall`` on its real-time one. ``idle_s`` passed between the process's entry before and the beginning."""

    rank: int
    phase: str
    first_step: int
    n: int
    duration_s: float
    work: Mapping[str, float]
    end_t: float
    input_s: float | None = None
    wall: float | None = None
    idle_s: float | None = None
    paused_s: Mapping[str, float] = field(default_factory=dict)  # by phase: within it, and no part of its duration

    @property
    def start_t(self) -> float:
        return self.end_t - self.duration_s - sum(self.paused_s.values())


@dataclass(frozen=True)
class Reading:
    """One reading of a node: (metric, subject) -> value over the window that ended at ``end_t``; None: unreadable."""

    end_t: float
    window_s: float
    values: Mapping[tuple[str, str], float | None]

    @property
    def start_t(self) -> float:
        return self.end_t - self.window_s


@dataclass
class NodeLog:
    """All that the log of one node tells, in the order it stands there."""

    node: str
    opened_t: float
    opened: Mapping[str, Any]
    intervals: list[Interval] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    losses: list[tuple[int, int, float]] = field(default_factory=list)  # rank, step, value
    reported_t: list[float] = field(default_factory=list)  # when each ``exchange`` or ``calibration`` was
    by_kind: dict[str, list[tuple[int | None, Mapping[str, Any]]]] = field(default_factory=dict)  # the rest
    first_t: dict[str, float] = field(default_factory=dict)  # when each kind came first, on the host's monotonic clock
    closed: Mapping[str, Any] | None = None
    entries: int = 1

    @property
    def job(self) -> Mapping[str, Any]:
        job: Mapping[str, Any] = self.opened["job"]
        return job

    def of(self, kind: str) -> list[tuple[int | None, Mapping[str, Any]]]:
        """(rank, data) of every event of ``kind``."""
        return self.by_kind.get(kind, [])


_BROKEN = (protocol.ProtocolError, KeyError, TypeError, ValueError, AttributeError, OverflowError)


def read_log(node: str, entries: Iterable[Mapping[str, Any]]) -> NodeLog:
    """Return the log of ``node``; one that merely ends too early has ``closed`` None. The next entry is asked for once
    the one before it was found good.

    Raises:
        LogError: it does not begin with ``log_opened``, a number is missing, or an entry breaks the protocol or says
            what cannot be.
    """
    clocks = plausible.Clocks()
    log: NodeLog | None = None
    for number, entry in enumerate(entries, start=1):
        if entry.get("seq") != number:
            raise LogError(f"the log of {node} has {entry.get('seq')!r} where entry {number} should be", number)
        try:
            event = _checked(entry)
            if log is None:
                log = _opened(node, event)
            else:
                _take(log, event, clocks)
        except _BROKEN as error:
            raise LogError(
                f"the log of {node} does not follow the protocol: entry {number}: {error}", number
            ) from error
    if log is None:
        raise LogError(f"the log of {node} is empty")
    log.entries = number
    return log


def _checked(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    event: Mapping[str, Any] = protocol.check_event(dict(entry))
    plausible.check_numbers(event)
    if event["kind"] not in _NUMBERS_ONLY:
        for problem in untrusted.problems_in(event["data"], printed=untrusted.PRINTED, control=True):
            raise LogError(f"{problem.pointer}: {problem.message}")
    return event


# Kinds without text of their own, which are most entries of a log.
_NUMBERS_ONLY = ("interval", "loss")


def _opened(node: str, first: Mapping[str, Any]) -> NodeLog:
    if first["kind"] != "log_opened":
        raise LogError(f"begins with {first['kind']}, not with log_opened")
    if first["data"]["protocol"] != protocol.PROTOCOL_VERSION:
        raise LogError(f"speaks protocol {first['data']['protocol']!r}, this is {protocol.PROTOCOL_VERSION}")
    protocol.check_job({"token": None, **first["data"]["job"]})
    return NodeLog(node, protocol.number(first["t"]), first["data"])


def _take(log: NodeLog, event: Mapping[str, Any], clocks: plausible.Clocks) -> None:
    kind, data, rank = event["kind"], event["data"], event.get("rank")
    if log.closed is not None:
        raise LogError("goes on after log_closed")
    passed_s = clocks.since_last(event)
    log.first_t.setdefault(kind, protocol.number(event["t"]))
    if kind == "interval":
        log.intervals.append(interval_of(event, str(log.job["model"]["work_unit"]), passed_s))
    elif kind == "reading":
        log.readings.append(reading_of(event))
        if data.get("nvml"):
            log.by_kind["availability"] = [(None, data["nvml"])]
    elif kind == "loss":
        log.losses.append((0 if rank is None else rank, int(data["step"]), protocol.number(data["value"])))
    elif kind == "log_closed":
        log.closed = data
    else:
        if kind in ("exchange", "calibration"):
            log.reported_t.append(protocol.number(event["t"]))
        log.by_kind.setdefault(kind, []).append((rank, data))


def interval_of(event: Mapping[str, Any], unit: str, passed_s: float | None = None) -> Interval:
    """Return the interval that an ``interval`` event, whose numbers were checked, reports.

    Args:
        unit: that of the model's work, which the event must count.
        passed_s: seconds since the process's entry before.

    Raises:
        LogError: its numbers cannot be.
        ImpossibleError: its duration is not that of the log's own clock.
        ProtocolError, KeyError, TypeError: it is not such an event.
    """
    data, rank = event["data"], event.get("rank")
    duration_s = protocol.number(data["duration_s"])
    if not isinstance(data["n"], int) or not isinstance(data["first_step"], int):
        raise LogError(f"an interval of {data['n']!r} steps from {data['first_step']!r} on")
    if data["phase"] not in protocol.PHASES:
        raise LogError(f"an interval of the unknown phase {data['phase']!r}")
    input_s = None if data.get("input_s") is None else protocol.number(data["input_s"])
    if input_s is not None and input_s > duration_s + plausible.STAMP_S:
        raise LogError(f"an interval that waited {input_s} s of its {duration_s} s for input")
    paused_s = {str(name): protocol.number(seconds) for name, seconds in (data.get("paused_s") or {}).items()}
    if not all(0 <= seconds <= plausible.LONGEST_S for seconds in paused_s.values()):
        raise LogError(f"an interval with phases that cannot be: {paused_s}")
    return Interval(
        rank=0 if rank is None else int(rank),
        phase=data["phase"],
        first_step=data["first_step"],
        n=data["n"],
        duration_s=duration_s,
        work=_work(data["work"], unit),
        end_t=protocol.number(event["t"]),
        input_s=input_s,
        wall=protocol.number(event["wall"]),
        idle_s=plausible.idle_s(duration_s, passed_s, sum(paused_s.values())),
        paused_s=paused_s,
    )


def _work(work: Any, unit: str) -> Mapping[str, float]:
    """Unit -> amount, the model's own unit among them."""
    if not isinstance(work, Mapping) or unit not in work:
        raise LogError(f"an interval counts no {unit}, the unit of the model's work, but {work!r}")
    amounts = {str(name): protocol.number(amount) for name, amount in work.items()}
    if not all(0 <= amount <= plausible.MOST for amount in amounts.values()):
        raise LogError(f"an interval with work that cannot be: {amounts}")
    return amounts


def reading_of(event: Mapping[str, Any]) -> Reading:
    """Return the reading that a ``reading`` event reports; raises as ``interval_of`` does."""
    data = event["data"]
    values = {
        (str(metric), str(subject)): None if value is None else protocol.number(value)
        for metric, subject, value in data["values"]
    }
    return Reading(protocol.number(event["t"]), protocol.number(data["window_s"]), values)
