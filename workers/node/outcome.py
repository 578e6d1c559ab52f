"""How an attempt ended on this node, from what was seen: pure, without I/O.

Owns the one table from an observation (exit status, signal, error event, a decision of the agent's) to a failure of
the protocol, and which of several failures is the cause when a whole gang goes down.
"""

from __future__ import annotations

import signal
from typing import Any, NamedTuple, Sequence

from workers.trainer import protocol

_KIND_OF_STATUS = {status: kind for kind, status in protocol.EXIT_STATUS.items()}

# When one rank goes, the others report that it is gone: the more a kind says about its own rank, the likelier it is the
# cause. Among equals what a process said of itself counts before what a peer saw of it (a rank killed by a signal says
# nothing, and its peer reports the loss with an exit status of its own), and then the first one seen.
_TELLING = (
    "out_of_memory",
    "diverged",
    "unsupported",
    "setup_failed",
    "no_space",
    "invalid_log",
    "crashed",
    "timed_out",
    "node_lost",
    "cancelled",
)

# Failures that strike every rank for the same reason; of the others only the first victim is named.
_SHARED = ("out_of_memory", "diverged", "unsupported", "setup_failed", "no_space", "timed_out")

# How native code ends that does not look whether it was given memory. Within a limit that is the likeliest cause;
# without one Linux seldom refuses memory, and such an end is a crash.
_BLUNT = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS)

# The last words of libraries and of Python that got no more memory, and so ended the process themselves: OpenBLAS with
# status 1, or by SIGINT; libgomp with status 1; glibc with status 127; Python where not even its own modules could be
# read. They count within a limit only, as ``_BLUNT`` does.
_SHORT = (
    "MemoryError",
    "Cannot allocate memory",
    "failed to map segment from shared object",
    "cannot map zero-fill pages",
    "Memory allocation still failed",
    "Resource temporarily unavailable",
    "cannot allocate memory for thread-local data",
    "pthread_create failed",
)


class Failure(NamedTuple):
    """A failure as it stands in ``log_closed``."""

    kind: str
    ranks: Sequence[int] = ()
    exit_code: int | None = None
    signal: int | None = None
    message: str = ""
    # None of them is part of the log: reported by a process that saw another one fail; what only followed from another
    # one's end, as mpirun ends the other ranks and then itself; of an actor, which ends well where its worker has gone.
    of_a_peer: bool = False
    aftermath: bool = False
    of_an_actor: bool = False

    def as_json(self) -> dict[str, Any]:
        data = {**self._asdict(), "ranks": sorted(self.ranks)}
        del data["of_a_peer"], data["aftermath"], data["of_an_actor"]
        return data


def of_exit(
    ranks: Sequence[int],
    status: int,
    error: dict[str, Any] | None,
    finished: bool,
    stderr_tail: str,
    memory_short: bool,
    memory_limit_bytes: int | None = None,
) -> Failure | None:
    """Judge the end of one process that the agent did not end itself.

    Args:
        ranks: the ranks it drove; none: it is of a model's own role, if it has to report that it has finished.
        status: as subprocess gives it: an exit code, or a signal's number negated.
        error: data of its ``error`` event, if it sent one.
        finished: whether it reported ``finished``, or need not.
        stderr_tail: the last it said.
        memory_short: whether the kernel killed something for want of memory meanwhile.
        memory_limit_bytes: what the plan lets each process have.

    Returns:
        None when it ended well.
    """
    exit_code, number = (None, -status) if status < 0 else (status, None)
    if error is not None and error["failure"] in protocol.FAILURE_KINDS:
        return Failure(error["failure"], ranks, exit_code, number, "{}: {}".format(error["type"], error["message"]))
    if _says_short(status, stderr_tail) and memory_limit_bytes is not None:
        message = f"no more memory within its limit of {memory_limit_bytes // 2**20} MiB"
        return Failure("out_of_memory", ranks, exit_code, number, _with_tail(message, stderr_tail))
    if number is not None:
        return _of_signal(ranks, number, stderr_tail, memory_short, memory_limit_bytes)
    if status in _KIND_OF_STATUS:
        message = _with_tail(f"exit status {status} without an error event", stderr_tail)
        return Failure(_KIND_OF_STATUS[status], ranks, status, None, message)
    if status != 0:
        return Failure("crashed", ranks, status, None, _with_tail(f"exit status {status}", stderr_tail))
    if not finished and not ranks:
        return Failure("crashed", ranks, 0, None, "ended with status 0 before its worker had gone")
    if not finished:
        return Failure("invalid_log", ranks, 0, None, "ended with status 0 but never reported that it had finished")
    return None


def _says_short(status: int, stderr_tail: str) -> bool:
    ended_itself = status not in (0, -signal.SIGKILL) and status not in _KIND_OF_STATUS
    return ended_itself and any(words in stderr_tail for words in _SHORT)


def _of_signal(
    ranks: Sequence[int], number: int, stderr_tail: str, memory_short: bool, memory_limit_bytes: int | None
) -> Failure:
    kind, message = "crashed", f"killed by {_name(number)}"
    if number == signal.SIGKILL and memory_short:
        return Failure("out_of_memory", ranks, None, number, "killed by the kernel while memory was short")
    if number == signal.SIGABRT and "std::bad_alloc" in stderr_tail:
        # C++ that nobody catches: a library asked for memory in a thread of its own.
        kind, message = "out_of_memory", "a library got no memory"
    elif number in _BLUNT and memory_limit_bytes is not None:
        kind = "out_of_memory"
        message = (
            f"killed by {_name(number)} within its limit of {memory_limit_bytes // 2**20} MiB: libraries that find no"
            " memory end so; without memory_limit_bytes it would show whether it was that"
        )
    elif number == signal.SIGALRM:
        kind = "timed_out"
        message = "a wait inside of a library went on too long: ended by the alarm that its adapter had set (SIGALRM)"
    return Failure(kind, ranks, None, number, _with_tail(message, stderr_tail))


def late(ranks: Sequence[int], limit_s: float, of_profile: bool) -> Failure:
    """Judge ``ranks`` that have used up the time of their run, or of the profile that fresh processes make."""
    message = f"still running after timeout_s = {limit_s:g} s"
    if of_profile:
        message = "the processes of the profile have used up their time"
    return Failure("timed_out", ranks, message=message)


def cause(failures: Sequence[Failure]) -> Failure | None:
    """Return the failure that explains the others, in the order they were seen; None when there is none."""
    if not failures:
        return None
    first = min(
        failures,
        key=lambda failure: (
            failure.aftermath,
            _TELLING.index(failure.kind),
            failure.of_a_peer,
            # Its worker may be quicker to say that it has lost it.
            not failure.of_an_actor,
        ),
    )
    if first.kind not in _SHARED:
        return first
    ranks: list[int] = sorted({rank for failure in failures if failure.kind == first.kind for rank in failure.ranks})
    return first._replace(ranks=ranks)


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _with_tail(message: str, stderr_tail: str) -> str:
    # mpirun draws lines.
    last = [line for line in stderr_tail.splitlines() if any(character.isalnum() for character in line)][-1:]
    return f"{message}; its last words: {last[0].strip()}" if last else message
