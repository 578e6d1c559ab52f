"""The C library's heap, from which a framework and its libraries take what they allocate: glibc's own count."""

import ctypes
from typing import Optional

# struct mallinfo2 of glibc 2.33 and newer: mallinfo(3).
_FIELDS = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()


class _Count(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in _FIELDS]


def in_use_bytes() -> Optional[int]:
    """Return what is taken and not given back, touched or not; None where the C library does not tell."""
    try:
        count = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        return None
    count.restype = _Count
    found = count()
    return found.uordblks + found.hblkhd


class WhileTraining(object):
    """The most that is taken while training, over what was taken before the build; where ``in_use_bytes`` tells."""

    method = "the C library's heap (mallinfo2) while training, over that before the build"

    def __init__(self) -> None:
        self._before = in_use_bytes()
        self._most = 0

    def look(self) -> None:
        """Keep the count if it is the largest."""
        self._most = max(self._most, in_use_bytes())

    def peak_bytes(self) -> int:
        return self._most - self._before
