"""Calls into a framework that may wait for ever, as for ranks that are gone, and cannot be interrupted."""

import threading

from workers.trainer.failure import TrainerError


def within(limit_s, complaint, function, *arguments):
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

    thread = threading.Thread(target=call, name="tbd-waiting")
    thread.daemon = True
    thread.start()
    thread.join(limit_s)
    if thread.is_alive():
        raise TrainerError("timed_out", "%s within %g s" % (complaint, limit_s))
    if "error" in answer:
        raise answer["error"]
    return answer["value"]
