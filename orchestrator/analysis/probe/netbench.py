"""From the logs of a netbench to how long messages took, by size: pure, as all analysis."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from orchestrator.analysis.log.events import LogError, NodeLog
from orchestrator.analysis.log.windows import Span
from orchestrator.analysis.run import validity
from orchestrator.analysis.run.evidence import Evidence
from orchestrator.analysis.run.utilization import NodeSpan
from orchestrator.domain.value.measurement import Analysis, Reason, Transfer, Validity
from workers.trainer import protocol

POINT_TO_POINT, PUSH, PULL, ALL_REDUCE = "point_to_point", "push", "pull", "all_reduce"
OPERATIONS = (POINT_TO_POINT, PUSH, PULL, ALL_REDUCE)

# Those rules of a training that say something of a run without steps; a calibration has the same.
RULES = (
    validity.all_ranks_finished,
    validity.world_is_whole,
    validity.no_foreign_load,
    validity.no_time_stolen,
    validity.no_swapping,
    validity.device_is_exclusive,
)


@dataclass(frozen=True)
class Case:
    """What was measured at once: one operation and size, among some ranks, idle or with busy cores."""

    busy_cores: bool
    operation: str
    library: str
    ranks: tuple[int, ...]
    bytes: int
    world_size: int
    ways: int

    def reporting(self, leading: Sequence[int]) -> set[int]:
        """The ranks that report durations, of those that are ``leading`` in their process: of a pair the one that saw
        the whole round trip."""
        return {self.ranks[0]} if self.operation == POINT_TO_POINT else set(self.ranks) & set(leading)


def judged(logs: Sequence[NodeLog], told: Mapping[str, Any], code_version: str) -> Analysis:
    """The analysis of a netbench that ended by itself.

    Raises:
        ValueError, KeyError, TypeError: the logs hold what cannot be.
    """
    evidence = Evidence(logs, None, None, None, spans(logs))
    rows, problem = transfers(logs, evidence.leading_ranks)
    findings = [rule(evidence) for rule in RULES]
    if problem:
        findings.append(Reason("exchanges_missing", problem, replaceable=False))
    queued = [int(data["queued"]) for _, data in evidence.of("exchange") if data.get("queued", 1) > 1]
    if queued:
        findings.append(f"times are means of {min(queued)} to {max(queued)} calls that were queued together")
    skipped = [item for _, data in evidence.of("stopped") for item in data.get("skipped") or ()]
    if skipped:
        findings.append(f"{len(skipped)} sizes were left out: the time budget was not enough for them")
    verdict = Validity.of(findings)
    believed = [] if verdict.broken else rows
    return Analysis(
        validity=verdict,
        circumstances=told,
        summary={"exchanges": len(believed), "skipped": len(skipped), **headline(believed)},
        code_version=code_version,
        transfers=tuple(believed),
    )


def transfers(logs: Sequence[NodeLog], leading: Sequence[int]) -> tuple[list[Transfer], str | None]:
    """What was measured, the sizes of an operation one after the other; and what is missing, if anything is.
    ``leading``: the first rank of each process, which reports for all that it drives."""
    reported: dict[Case, dict[int, list[float]]] = {}
    for rank, data in _in_order(logs):
        reported.setdefault(_case(data), {})[rank] = _durations(data)
    if not reported:
        return [], "no message was timed"
    for case, by_rank in reported.items():
        missing = sorted(case.reporting(leading) - set(by_rank))
        if missing or len({len(durations) for durations in by_rank.values()}) > 1:
            told = f"ranks {missing} report nothing" if missing else "ranks report different numbers of repetitions"
            return [], f"{case.operation} of {case.bytes} bytes: {told}"
    found = [_transfer(case, by_rank) for case, by_rank in reported.items()]
    return sorted(found, key=lambda one: (one.busy_cores, OPERATIONS.index(one.operation), one.ranks, one.bytes)), None


def headline(rows: Sequence[Transfer]) -> dict[str, float]:
    """Latency of the smallest and rate of the largest message, and the all-reduce's bus rate, all with idle cores; of
    several pairs of nodes the slowest."""
    found: dict[str, float] = {}
    points = [row for row in rows if row.operation == POINT_TO_POINT and not row.busy_cores]
    sums = [row for row in rows if row.operation == ALL_REDUCE and not row.busy_cores]
    if points:
        least, most = min(row.bytes for row in points), max(row.bytes for row in points)
        found["latency_s"] = max(row.duration_p50_s for row in points if row.bytes == least)
        found["point_to_point_bytes_per_s"] = min(row.algorithm_bytes_per_s for row in points if row.bytes == most)
    if sums:
        found["all_reduce_bus_bytes_per_s"] = max(sums, key=lambda row: row.bytes).bus_bytes_per_s
    return found


def _in_order(logs: Sequence[NodeLog]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """(rank, data) of all events; those of rank 0's log come first."""
    found = [(int(rank or 0), data) for log in logs for rank, data in log.of("exchange")]
    return iter(sorted(found, key=lambda item: item[0] != 0))


def _case(data: Mapping[str, Any]) -> Case:
    case = Case(
        busy_cores=bool(data["busy_cores"]),
        operation=str(data["operation"]),
        library=str(data["library"]),
        ranks=tuple(int(rank) for rank in data["ranks"]),
        bytes=int(data["bytes"]),
        world_size=int(data["world_size"]),
        ways=int(data["ways"]),
    )
    if case.operation not in OPERATIONS or len(case.ranks) < 2 or case.bytes < 1 or case.ways < 1:
        raise LogError(f"an exchange that cannot be: {dict(data, duration_s=None)}")
    return case


def _durations(data: Mapping[str, Any]) -> list[float]:
    durations = [protocol.number(value) for value in data["duration_s"]]
    if not durations or not all(0 < value < math.inf for value in durations):
        raise LogError(f"an exchange of {data['bytes']} bytes with durations that cannot be")
    return durations


def _transfer(case: Case, by_rank: Mapping[int, Sequence[float]]) -> Transfer:
    slowest = np.max([by_rank[rank] for rank in sorted(by_rank)], axis=0) / case.ways
    p50, p90 = (float(value) for value in np.quantile(slowest, (0.5, 0.9)))
    n = len(case.ranks)
    rate = case.bytes / p50
    return Transfer(
        operation=case.operation,
        library=case.library,
        bytes=case.bytes,
        world_size=case.world_size,
        ranks=case.ranks,
        busy_cores=case.busy_cores,
        repetitions=len(slowest),
        duration_min_s=float(slowest.min()),
        duration_p50_s=p50,
        duration_mean_s=float(slowest.mean()),
        duration_p90_s=p90,
        duration_max_s=float(slowest.max()),
        algorithm_bytes_per_s=rate,
        bus_bytes_per_s=rate * (2.0 * (n - 1) / n if case.operation == ALL_REDUCE else 1.0),
    )


def spans(logs: Sequence[NodeLog]) -> list[NodeSpan]:
    """Of each node the time in which messages were timed, from the end of the first size to that of the last."""
    ends = [(log, log.reported_t) for log in logs]
    return [NodeSpan(log, Span(min(found), max(found))) for log, found in ends if found]
