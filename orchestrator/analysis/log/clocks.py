"""The logs of several nodes on one time axis: the monotonic clock of the node that leads, and how far it may be wrong.

Rank 0 compares its clock with that of each other node when all ranks have joined and again at the end (``clock``
events). Between the two an offset is interpolated, so a steady drift is accounted for; outside, it goes on at the same
rate, and the uncertainty grows. Nothing that is measured rests on this: durations are differences of one clock, and
intervals of several ranks are joined by their steps. It tells a person, and a trace, what came before what.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from workers.trainer import protocol

# Two clocks drift apart by this much at most: the kernel steers each by up to 500 parts in a million (adjtimex(2)).
MAX_DRIFT = 1e-3

Entries = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Comparison:
    """At ``at_t`` of the leading node's clock another node's was ``offset_s`` ahead, give or take ``uncertainty_s``."""

    at_t: float
    offset_s: float
    uncertainty_s: float


@dataclass(frozen=True)
class NodeClock:
    """How one node's monotonic clock relates to the leading node's.

    Attributes:
        comparisons: in the order of time, at most one for the beginning and one for the end.
        leads: this is the leading node's own clock.
        guess_s: an offset from the nodes' real-time clocks, for a node whose clock was never compared. How far they
            are apart nobody knows, so the uncertainty of such a time is None.
    """

    comparisons: tuple[Comparison, ...] = ()
    leads: bool = False
    guess_s: float = 0.0

    @property
    def drift(self) -> float:
        """By how many seconds a second it gains on the leading node's clock; 0 where that is not known."""
        if len(self.comparisons) < 2:
            return 0.0
        first, last = self.comparisons
        return max(-MAX_DRIFT, min(MAX_DRIFT, (last.offset_s - first.offset_s) / (last.at_t - first.at_t)))

    def common(self, t: float) -> tuple[float, float | None]:
        """Return (the same moment on the leading node's clock, how far that may be wrong in seconds)."""
        if self.leads:
            return t, 0.0
        if not self.comparisons:
            return t - self.guess_s, None
        first, last = self.comparisons[0], self.comparisons[-1]
        moment = _moment(t, first, self.drift)
        if moment < first.at_t or last is first:
            return moment, first.uncertainty_s + self._growth * abs(moment - first.at_t)
        if moment > last.at_t:
            moment = _moment(t, last, self.drift)
            return moment, last.uncertainty_s + self._growth * abs(moment - last.at_t)
        # Between two offsets the error is no more than the same share of their uncertainties.
        moment = _moment(t, first, (last.offset_s - first.offset_s) / (last.at_t - first.at_t))
        share = (moment - first.at_t) / (last.at_t - first.at_t)
        return moment, (1 - share) * first.uncertainty_s + share * last.uncertainty_s

    @property
    def _growth(self) -> float:
        """By how much a second the uncertainty grows outside the comparisons."""
        first, last = self.comparisons[0], self.comparisons[-1]
        if last is first:
            return MAX_DRIFT
        return min(2 * MAX_DRIFT, (first.uncertainty_s + last.uncertainty_s) / (last.at_t - first.at_t))


def _moment(t: float, near: Comparison, drift: float) -> float:
    """Return the leading clock's time at which this clock shows ``t``, going from ``near`` at a steady drift."""
    return near.at_t + (t - near.offset_s - near.at_t) / (1 + drift)


@dataclass(frozen=True)
class Axis:
    """The clocks of all nodes of an attempt. Times are seconds of the monotonic clock of ``leader``."""

    leader: str
    clocks: Mapping[str, NodeClock] = field(default_factory=dict)

    def common(self, node: str, t: float) -> tuple[float, float | None]:
        """Return (``t`` of ``node`` on the axis, its uncertainty in seconds or None where nothing bounds it)."""
        return self.clocks[node].common(t)


def axis_of(logs: Mapping[str, Entries]) -> Axis:
    """Return the axis for the logs of an attempt (node -> its entries, in order; prefixes will do).

    Raises:
        ValueError: there is no log, or one does not begin with ``log_opened``.
    """
    opened = {node: _opened(node, entries) for node, entries in logs.items()}
    if not opened:
        raise ValueError("there is no log")
    processes = next(iter(opened.values()))["data"]["job"]["processes"]
    node_of = {rank: str(process["node"]) for process in processes for rank in process["ranks"]}
    by_name = {str(entry["data"]["node"]): node for node, entry in opened.items()}
    leading = by_name.get(node_of.get(0, ""), "")
    leader = leading or min(opened)
    found = _comparisons(logs[leader], node_of) if leading else {}
    clocks = {leader: NodeClock(leads=True)}
    for name, node in by_name.items():
        if node != leader:
            guess_s = _ahead_of_wall(opened[node]) - _ahead_of_wall(opened[leader])
            clocks[node] = NodeClock(_ends(found.get(name, [])), guess_s=guess_s)
    return Axis(leader, clocks)


def merged(logs: Mapping[str, Entries]) -> list[dict[str, Any]]:
    """Return the entries of all logs in the order in which they happened.

    Each has ``node``, ``t`` on the common axis (seconds of the leading node's monotonic clock), ``uncertainty_s`` (None
    where nothing bounds it) and ``node_t``, what the log says. Entries of one moment stand by node and number.

    Raises:
        ValueError: as ``axis_of``.
    """
    axis = axis_of(logs)
    found = []
    for node, entries in logs.items():
        for entry in entries:
            own_t = protocol.number(entry["t"])
            t, uncertainty_s = axis.common(node, own_t)
            found.append({**entry, "node": node, "t": t, "node_t": own_t, "uncertainty_s": uncertainty_s})
    return sorted(found, key=lambda entry: (entry["t"], entry["node"], entry["seq"]))


def _opened(node: str, entries: Entries) -> Mapping[str, Any]:
    if not entries or entries[0].get("kind") != "log_opened":
        raise ValueError(f"the log of {node} does not begin with log_opened")
    return entries[0]


def _comparisons(entries: Entries, node_of: Mapping[int, str]) -> dict[str, list[Comparison]]:
    """Return the comparisons with each other node, by its name in the job."""
    found: dict[str, list[Comparison]] = {}
    for entry in entries:
        if entry["kind"] == "clock":
            data = entry["data"]
            at_t = protocol.number(data.get("at_t", entry["t"]))
            one = Comparison(at_t, protocol.number(data["offset_s"]), protocol.number(data["uncertainty_s"]))
            found.setdefault(node_of[int(data["peer_rank"])], []).append(one)
    return found


def _ends(comparisons: Iterable[Comparison]) -> tuple[Comparison, ...]:
    """Of the comparisons at the beginning and of those at the end the best one; a node may drive several ranks."""
    ordered = sorted(comparisons, key=lambda one: one.at_t)
    if not ordered:
        return ()
    middle = (ordered[0].at_t + ordered[-1].at_t) / 2
    halves = [one for one in ordered if one.at_t <= middle], [one for one in ordered if one.at_t > middle]
    return tuple(min(half, key=lambda one: one.uncertainty_s) for half in halves if half)


def _ahead_of_wall(entry: Mapping[str, Any]) -> float:
    return protocol.number(entry["t"]) - protocol.number(entry["wall"])
