"""What the numbers of a log may be, and whether its durations agree with its own clocks.

Each entry carries the clock of the process that wrote it, so a duration can be checked against the time that passed
there. ``events`` asks this of every entry; ``validity`` asks it once more of the timed phase as a whole.
"""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from orchestrator.domain.words import untrusted
from workers.trainer import protocol

if TYPE_CHECKING:
    from orchestrator.analysis.log.events import Interval

Range = tuple[float, float]

# Judgements, all far beyond what there is: they keep out what no arithmetic survives.
LONGEST_S = 1e10  # of a monotonic clock, or of a duration: 300 years
SHORTEST_S = 1e-9  # of an interval: a tick of the clock
MOST = 2.0**53  # of a count, an amount of work or bytes: what a float counts exactly
SECONDS: Range = (0.0, LONGEST_S)
COUNT: Range = (0.0, MOST)
RANK: Range = (0.0, 1e6)

# kind -> field -> (least, most). A field that is not there, or null, is not looked at; of a list each item is.
RANGES: Mapping[str, Mapping[str, Range]] = {
    "interval": {
        "first_step": (1.0, MOST),
        "n": (1.0, MOST),
        "duration_s": (SHORTEST_S, LONGEST_S),
        "input_s": SECONDS,
    },
    "loss": {"step": COUNT},
    "evaluation": {
        "step": COUNT,
        "samples": (1.0, MOST),
        "cost_s": SECONDS,
        "trained_s": SECONDS,
        "elapsed_s": SECONDS,
    },
    "epoch": {"samples": (1.0, MOST), "max_steps": (1.0, MOST)},
    "resumed": {"step": COUNT, "lost_s": SECONDS, "cost_s": SECONDS},
    "checkpoint": {"step": COUNT, "bytes": COUNT, "cost_s": SECONDS},
    "reading": {"window_s": SECONDS},
    "output": {"offset": COUNT},
    "joined": {"world_size": (1.0, MOST)},
    "built": {"build_s": SECONDS, "parameters": COUNT},
    "stopped": {"step": COUNT},
    "finished": {"steps": COUNT},
    "memory": {"peak_bytes": COUNT, "warmup_peak_bytes": COUNT, "reserved_bytes": COUNT},
    "clock": {"offset_s": (-LONGEST_S, LONGEST_S), "uncertainty_s": SECONDS, "at_t": SECONDS},
    "activity": {"active_s": SECONDS, "elapsed_s": SECONDS, "steps": COUNT, "cost_s": SECONDS},
    "kernels": {"elapsed_s": SECONDS, "active_s": SECONDS, "steps": COUNT},
    "layers": {"elapsed_s": SECONDS, "steps": COUNT},
    "operations": {"flops": (0.0, 1e30), "steps": (1.0, MOST)},
    "profiled": {"elapsed_s": SECONDS, "steps": COUNT, "begun_t": SECONDS},
    "exchange": {"bytes": COUNT, "repetitions": COUNT, "duration_s": SECONDS, "queued": COUNT},
    "calibration": {"flops": (0.0, 1e30), "products": COUNT, "loaded_s": SECONDS, "duration_s": SECONDS},
    "log_closed": {"entries": COUNT},
}

# Two stamps of one process may be this far apart and still mean the same moment.
STAMP_S = 1e-3
# Judgements. Between two intervals a loop reads its loss and asks whether to go on: 0.1 to 0.9 ms in the recorded logs,
# whatever the step; a few ms where other work keeps the cores busy. The slack is a share of a step, and a constant.
MOST_IDLE_RATIO, MOST_IDLE_S = 0.25, 5e-3
MOST_IDLE_FACTOR = 100.0  # of the step's time, however short it is
# A real-time clock may be slewed by 10 % (chrony's maxslewrate is 8.3 %) and set once; it does not run at another rate.
MOST_DRIFT_RATIO = 0.2


class ImpossibleError(ValueError):
    """A number or a time that cannot be; the message says which."""


def check_numbers(event: Mapping[str, Any]) -> None:
    """Hold the numbers of ``event`` to ``RANGES``, and its two clocks.

    Raises:
        ImpossibleError: one is not finite, or out of its range.
        ProtocolError: one is no number.
    """
    _hold("t", event["t"], SECONDS)
    if not untrusted.is_time(protocol.number(event["wall"])):
        raise ImpossibleError(f"wall is {event['wall']!r}, which is no time from 1970 to 9999")
    if event.get("rank") is not None:
        _hold("rank", event["rank"], RANK)
        if not isinstance(event["rank"], int):
            raise ImpossibleError(f"rank is {event['rank']!r}")
    for name, allowed in RANGES.get(event["kind"], {}).items():
        value = event["data"].get(name)
        for one in value if isinstance(value, list) else [value]:
            if one is not None:
                _hold(name, one, allowed)


def is_plausible(event: Mapping[str, Any]) -> bool:
    """Whether an entry follows the protocol and its numbers can be: an older version stored others too."""
    try:
        check_numbers(protocol.check_event(dict(event)))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return False
    return True


def _hold(name: str, value: Any, allowed: Range) -> None:
    if not allowed[0] <= protocol.number(value) <= allowed[1]:
        raise ImpossibleError(f"{name} is {value!r}, which is not within {allowed[0]:g} and {allowed[1]:g}")


class Clocks:
    """The monotonic clock of each process of a log, as its entries come by. An agent has several threads, and another
    agent may end its log after the host was started anew: its entries are not held to an order."""

    def __init__(self) -> None:
        self._last: dict[tuple[Any, Any], float] = {}

    def since_last(self, event: Mapping[str, Any]) -> float | None:
        """Seconds since the entry before by the same process and rank; None for the first one.

        Raises:
            ImpossibleError: its clock went back.
        """
        if event.get("rank") is None:
            return None
        writer, t = (event.get("source"), event["rank"]), protocol.number(event["t"])
        before = self._last.get(writer)
        self._last[writer] = t
        if before is not None and t < before - STAMP_S:
            raise ImpossibleError(f"the clock of {event.get('source')} went back from {before} to {t}")
        return None if before is None else t - before


def idle_s(duration_s: float, passed_s: float | None, paused_s: float = 0.0) -> float | None:
    """Return how much of ``passed_s``, since the process's entry before, was not part of an interval that has just
    ended after ``duration_s``, nor of the ``paused_s`` that it tells of.

    Raises:
        ImpossibleError: the interval would have begun before that entry was written.
    """
    if passed_s is None:
        return None
    if duration_s > passed_s + STAMP_S:
        raise ImpossibleError(f"an interval of {duration_s} s, {passed_s} s after the entry before it")
    return max(0.0, passed_s - duration_s - paused_s)


def disagreement(intervals: Sequence["Interval"]) -> str | None:
    """Return why the durations of the timed intervals of all ranks cannot be those of the log's own clocks, or None.

    Ranks wait for the slowest one between intervals: of each step the rank counts that waited least. Medians, because
    a process may be kept from running at any time.
    """
    by_step: dict[int, list[Interval]] = {}
    for item in intervals:
        if item.phase == "timed" and item.idle_s is not None:
            by_step.setdefault(item.first_step, []).append(item)
    if not by_step:
        return None
    idle = median(min(item.idle_s or 0.0 for item in step) for step in by_step.values())
    length = median(max(item.duration_s for item in step) for step in by_step.values())
    if idle > MOST_IDLE_RATIO * length + MOST_IDLE_S or idle > MOST_IDLE_FACTOR * length:
        return f"intervals last {length:.3g} s by themselves and {idle + length:.3g} s by the log's monotonic clock"
    rate = _real_time_rate(intervals)
    if rate is not None and abs(rate - 1.0) > MOST_DRIFT_RATIO:
        return f"{rate:.3g} s pass by the log's real-time clock in each second of its monotonic one"
    return None


def _real_time_rate(intervals: Sequence["Interval"]) -> float | None:
    """Return the median, over neighbouring intervals of a rank, of real time over monotonic time."""
    last: dict[int, Interval] = {}
    rates = []
    for item in intervals:
        before = last.get(item.rank)
        if item.wall is not None and before is not None and before.wall is not None:
            passed_s = item.end_t - before.end_t
            if passed_s >= STAMP_S:
                rates.append((item.wall - before.wall) / passed_s)
        last[item.rank] = item
    return median(rates) if rates else None
