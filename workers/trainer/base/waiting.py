"""Calls into a framework that may wait for ever, as for ranks that are gone, and cannot be interrupted."""

import contextlib
import signal
import threading
from typing import Any, Callable, Iterator

from workers.trainer.base.failure import TrainerError

_NAME = "tbd-waiting"


def within(limit_s: float, complaint: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return ``function(*arguments)``; it is called in a thread, since a wait in foreign code cannot be interrupted.

    Raises:
        TrainerError: ``timed_out`` with ``complaint``; the thread is left behind.
        Exception: what ``function`` raises.
    """
    answer = {}

    def call():
        try:
            answer["value"] = function(*arguments)
        except Exception as error:
            answer["error"] = error

    thread = threading.Thread(target=call, name=_NAME)
    thread.daemon = True
    thread.start()
    thread.join(limit_s)
    if thread.is_alive():
        raise TrainerError("timed_out", "%s within %g s" % (complaint, limit_s))
    if "error" in answer:
        raise answer["error"]
    return answer["value"]


def left_behind() -> bool:
    """Whether a call still waits that was given up: what takes the process down may end in a crash beside it."""
    return any(thread.name == _NAME for thread in threading.enumerate())


@contextlib.contextmanager
def alarm(limit_s: float) -> Iterator[None]:
    """End the process by SIGALRM if the block takes longer than ``limit_s``, even where it holds Python's lock.

    The node agent reads that as ``timed_out``.
    """
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
