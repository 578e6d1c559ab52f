"""The one exception with which a part of the trainer says that the attempt cannot go on, and why.

Also how a full disk, and memory that is short, are told from any other trouble.
"""

import errno
import resource
from typing import Optional, Sequence

# What an adapter's ``failure_of`` answers when an exception only tells that another rank has gone. Not a failure kind:
# which rank it was, and why, is known on the control channel.
PEER_LOST = "peer_lost"


# How C++ says that memory is short; bindings pass its text on, MXNet's as "std: :bad_alloc".
_BAD_ALLOC = "bad_alloc"
# What a process says that gets no more memory than its limit: for a library that is loaded (ld.so), within Python's own
# import, for the stack of another thread (EAGAIN), for what oneDNN lays aside before a primitive, for its data, or
# while it runs, and for a class of pybind11's. Without a limit each may have another cause.
_AT_THE_LIMIT = (
    "Cannot allocate memory",
    "failed to map segment from shared object",
    "cannot map zero-fill pages",
    "returned NULL without setting an exception",
    "error return without exception set",
    "Resource temporarily unavailable",
    "can't start new thread",
    "could not create a primitive",
    "could not execute a primitive",
    "could not create a memory object",
    "Unable to create type object!",
    "error allocating type!",
)


# Memory for the report of a failure, laid aside when the process begins; nothing is written to it, so that it takes
# address space alone. Where not even an integer finds room, CPython 3.11 never ends: to leave an ``except`` by
# another exception it makes an integer of the place, fails, and tries to leave by that failure. A method of C gives it
# back without asking for memory: ``RESERVE.clear()``.
RESERVE = [bytearray(2 << 20)]


class TrainerError(Exception):
    """Ends this process; ``kind`` is one of ``protocol.FAILURE_KINDS`` and decides the exit status.

    ``ranks`` are the ranks at which the cause lies, where that is known: not always the one that reports it.
    """

    def __init__(self, kind: str, message: str, ranks: Optional[Sequence[int]] = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.ranks = ranks


def lacks_space(error: Optional[BaseException]) -> bool:
    """Whether ``error``, or one that it was raised from, says that a disk is full or a quota used up."""
    return any(isinstance(one, OSError) and one.errno in (errno.ENOSPC, errno.EDQUOT) for one in _causes(error))


def lacks_memory(error: Optional[BaseException]) -> bool:
    """Whether ``error``, or one that it was raised from, says that this process got no more memory, whatever the
    framework."""
    return any(map(_is_shortage, _causes(error)))


def _causes(error):
    """Return ``error`` and those that it was raised from."""
    seen = []
    while error is not None and error not in seen:
        seen.append(error)
        error = error.__cause__
    return seen


def _is_shortage(error):
    if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM or _BAD_ALLOC in str(error):
        return True
    return _is_limited() and any(words in str(error) for words in _AT_THE_LIMIT)


def _is_limited() -> bool:
    return resource.getrlimit(resource.RLIMIT_DATA)[0] != resource.RLIM_INFINITY
