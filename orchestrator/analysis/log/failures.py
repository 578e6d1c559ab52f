"""What the logs say went wrong, if anything did."""

import signal
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.analysis.log.events import NodeLog
from orchestrator.domain.value.failure import Failure, FailureKind
from orchestrator.domain.words.untrusted import mended

# When nodes disagree: the node whose failure explains the others. Nodes that were told to stop, or that saw their
# peers vanish, come last.
_TELLING = (
    FailureKind.OUT_OF_MEMORY,
    FailureKind.DIVERGED,
    FailureKind.UNSUPPORTED,
    FailureKind.SETUP_FAILED,
    FailureKind.NO_SPACE,
    FailureKind.INVALID_LOG,
    FailureKind.CRASHED,
    FailureKind.TIMED_OUT,
    FailureKind.CANCELLED,
    FailureKind.NODE_LOST,
)


def failure_of(logs: Sequence[NodeLog]) -> Failure | None:
    """Return the failure that explains the attempt's end, or None when every node closed its log without one."""
    found = [failure for log in logs for failure in [_of_node(log)] if failure is not None]
    if not any(failure.kind is FailureKind.NODE_LOST for failure in found):  # which says why there is none
        found.extend(_missing_nodes(logs))
    return min(found, key=_telling, default=None)


def _telling(failure: Failure) -> tuple[int, bool]:
    """Among failures of one kind a signal comes first: peers of a process that was killed end in order, and only say
    that it has gone."""
    return _TELLING.index(failure.kind), failure.signal is None


def _of_node(log: NodeLog) -> Failure | None:
    if log.closed is None:
        return Failure(
            FailureKind.INVALID_LOG, f"the log of {log.node} ends after {log.entries} entries without log_closed"
        )
    if log.closed["entries"] != log.entries:
        message = f"the log of {log.node} has {log.entries} entries, its end counts {log.closed['entries']}"
        return Failure(FailureKind.INVALID_LOG, message)
    told = log.closed["failure"]
    return None if told is None else _told(log, told)


def _told(log: NodeLog, told: Mapping[str, Any]) -> Failure:
    """Return what the agent closed its log with, in the domain's words."""
    kind = told.get("kind")
    if kind not in [known.value for known in FailureKind]:
        return Failure(FailureKind.INVALID_LOG, f"the log of {log.node} ends with the unknown failure {kind!r}")
    ranks = tuple(int(rank) for rank in told.get("ranks") or ())
    return Failure(
        kind=FailureKind(kind),
        message=mended(str(told.get("message") or "")),
        ranks=ranks,
        exit_code=told.get("exit_code"),
        signal=_signal_name(told.get("signal")),
        stderr_tail=_stderr_tail(log, ranks),
        before_first_step=not (log.intervals or log.reported_t),
    )


def _signal_name(number: Any) -> str | None:
    if number is None:
        return None
    try:
        return signal.Signals(int(number)).name
    except ValueError:
        return str(number)


def _stderr_tail(log: NodeLog, ranks: tuple[int, ...]) -> str:
    """Return the last words of the process that drove the first failed rank, else of any that said something."""
    tails = {str(data["process"]): mended(str(data["stderr_tail"] or "")) for _, data in log.of("process_exited")}
    for process in log.job["processes"]:
        if ranks and ranks[0] in process["ranks"] and tails.get(process["name"]):
            return tails[process["name"]]
    return next((tail for tail in tails.values() if tail), "")


def _missing_nodes(logs: Sequence[NodeLog]) -> list[Failure]:
    """Nodes of the job from which no log came."""
    wanted = {str(process["node"]) for process in logs[0].job["processes"] if process.get("node")}
    missing = wanted - {log.node for log in logs} - {str(log.opened["node"]) for log in logs}
    if not missing or len(wanted) == 1:
        return []
    return [Failure(FailureKind.INVALID_LOG, f"there is no log of {', '.join(sorted(missing))}")]
