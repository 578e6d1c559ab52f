"""Why a run did not end well: a closed list, and what follows from each."""

from dataclasses import dataclass
from enum import StrEnum

from orchestrator.domain.words.plain import Plain


class FailureKind(StrEnum):
    """The reasons, named as they travel (``workers.trainer.protocol.FAILURE_KINDS``; a test holds them equal), and one
    that only the service states: it could not work on the run's own data."""

    OUT_OF_MEMORY = "out_of_memory"
    DIVERGED = "diverged"
    TIMED_OUT = "timed_out"
    CRASHED = "crashed"
    SETUP_FAILED = "setup_failed"
    NO_SPACE = "no_space"
    UNSUPPORTED = "unsupported"
    NODE_LOST = "node_lost"
    INVALID_LOG = "invalid_log"
    CANCELLED = "cancelled"
    INTERNAL_ERROR = "internal_error"


@dataclass(frozen=True)
class Failure(Plain):
    """One failure, as the node agent or the reconciler states it.

    ``ranks`` are those it was seen on. ``before_first_step`` tells a start-up time-out from a hang in mid-run.
    """

    kind: FailureKind
    message: str
    ranks: tuple[int, ...] = ()
    exit_code: int | None = None
    signal: str | None = None
    stderr_tail: str = ""
    before_first_step: bool = False


# How many attempts a run may take when one ends for this reason. Out of memory and divergence would only happen again;
# a crash is a result about the framework and is reported as one. A disk may have room again, as may another node have.
# The counts are judgements.
MAX_ATTEMPTS: dict[FailureKind, int] = {
    FailureKind.OUT_OF_MEMORY: 1,
    FailureKind.DIVERGED: 1,
    FailureKind.TIMED_OUT: 1,
    FailureKind.CRASHED: 1,
    FailureKind.SETUP_FAILED: 1,
    FailureKind.NO_SPACE: 3,
    FailureKind.UNSUPPORTED: 1,
    FailureKind.NODE_LOST: 3,
    FailureKind.INVALID_LOG: 2,
    FailureKind.CANCELLED: 1,
    FailureKind.INTERNAL_ERROR: 1,
}

# A time-out before the first step is a start-up that hung (a port taken, a file system asleep): worth one more try.
MAX_START_UP_ATTEMPTS = 2

# A process that was killed from outside says nothing about its framework. A run to convergence is long, and goes on
# from its checkpoint: it is worth another try.
MAX_KILLED_ATTEMPTS = 3

# A crash on a GPU may be that GPU's fault: it is tried once more where there are others.
MAX_ATTEMPTS_ELSEWHERE = 2


def is_of_program(failure: Failure) -> bool:
    """Whether nothing of ``failure`` can be a device's fault: no crash, or a process that was killed from outside."""
    return failure.kind is not FailureKind.CRASHED or failure.signal in ("SIGKILL", "SIGTERM")


def may_retry(failure: Failure, attempts_made: int, resumes: bool = False, elsewhere: bool = False) -> bool:
    """Tell whether a run whose ``attempts_made``-th attempt (1 ..) ended with ``failure`` gets another one.

    ``resumes``: the run is one to convergence, which goes on from a checkpoint. ``elsewhere``: it ran on GPUs, and
    there are others.
    """
    if resumes and failure.kind is FailureKind.CRASHED and failure.signal == "SIGKILL":
        return attempts_made < MAX_KILLED_ATTEMPTS
    if failure.kind is FailureKind.TIMED_OUT and failure.before_first_step:
        return attempts_made < MAX_START_UP_ATTEMPTS
    if elsewhere and not is_of_program(failure):
        return attempts_made < MAX_ATTEMPTS_ELSEWHERE
    return attempts_made < MAX_ATTEMPTS[failure.kind]
