"""How tbd's own threads keep out of the way of what is measured: a lower priority and, where there is one, a core.

On Linux both belong to a thread (setpriority(2), sched_setaffinity(2)), a new thread begins with those of the thread
that started it, and niceness cannot be taken back without privilege. So whoever starts children must not have stepped
back: that is left to one thread (``children.Spawner``), which begins before the others do.

A kernel that groups sessions (sched(7), "The autogroup feature") weighs the threads of one session among themselves
only; there it is the session that has to step back. Children of the agent begin sessions of their own.
"""

from __future__ import annotations

import ctypes
import os
from typing import Sequence

# Judgement: a third of the weight of niceness 0 (sched(7): a factor of 1.25 each). Enough that a training goes first,
# and not so much that an agent falls silent on a host where many others compute.
NICENESS = 5

_PR_SET_NAME = 15


def step_back(cores: Sequence[int] = (), name: str = "", thread: int = 0) -> None:
    """Take a thread, and those that it starts from now on, out of the way. Does what it may; never raises.

    Args:
        cores: the logical cores that are kept for tbd itself; none where there is no such core.
        name: what the kernel shows of the calling thread (``top -H``), 15 bytes at most.
        thread: the kernel's number of the thread; 0 for the calling one.
    """
    try:
        if os.getpriority(os.PRIO_PROCESS, thread) < NICENESS:
            os.setpriority(os.PRIO_PROCESS, thread, NICENESS)
        if cores:
            os.sched_setaffinity(thread, cores)
    except OSError:
        pass
    if name:
        ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)


def session_steps_back(leader: int) -> bool:
    """Lower the priority of the session that process ``leader`` leads; whether that was done.

    Not where it leads none: what a person starts from the same terminal, later too, would be slowed down with it.
    """
    try:
        if os.getsid(leader) != leader:
            return False
        with open(f"/proc/{leader}/autogroup", "w") as file:
            file.write(str(NICENESS))
    except OSError:  # a kernel without groups, or one that allows no change
        return False
    return True
