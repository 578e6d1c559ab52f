"""The few steps between fork and exec that a child of the agent takes on itself.

Run as a file, by path, under the agent's own Python and isolated from its environment; it imports nothing of ours. A
program of its own, and not a function between fork and exec, because the agent has many threads (Ray's among them) and
Python code in a forked child of such a process may wait for ever on a lock that no thread is left to release.

Arguments: the pid of the agent; the logical cores to be pinned to, separated by commas, or nothing; the bytes of memory
that the command may have, or nothing; the NUMA nodes that its memory comes from, or nothing; the command.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys

_PR_SET_PDEATHSIG = 1

_MPOL_BIND = 2  # linux/mempolicy.h
_SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}  # the system call's number, which the C library has no name for

# The kernel should rather end a training process than the agent that has to report it. Raising it needs no rights.
_OOM_SCORE = "500"


def main(agent: str, cores: str, memory: str, memory_nodes: str, *command: str) -> int:
    # Fires when the *thread* that forked this process ends: the agent forks from one that lives as long as itself.
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(agent):
        return 1  # it ended before the signal was set
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write(_OOM_SCORE)
    except OSError:
        pass
    try:
        # Ray's workers run at niceness 15, and their children with them: whatever else the host does would go first.
        # Without the right to lower it the training stays as nice as its agent; the log records how nice that is.
        if os.getpriority(os.PRIO_PROCESS, 0) > 0:
            os.setpriority(os.PRIO_PROCESS, 0, 0)
    except OSError:
        pass
    try:
        if memory:
            # Private memory that can be written: the heap, and since Linux 4.7 what is mapped. It needs no rights, it
            # is inherited, and the process itself is told, so that it can say what it asked for.
            resource.setrlimit(resource.RLIMIT_DATA, (int(memory), int(memory)))
        if cores:
            os.sched_setaffinity(0, {int(core) for core in cores.split(",")})
        if memory_nodes:
            _bind_memory([int(node) for node in memory_nodes.split(",")])
        os.execve(command[0], command, os.environ)
    except OSError as error:
        sys.stderr.write("cannot start {} on cores {}: {}\n".format(command[0], cores or "(all)", error))
    return 127


def _bind_memory(nodes: list[int]) -> None:
    """Have all memory come from ``nodes``. A container may forbid it: pages then come from the node of the core that
    touches them first, which is the same one as long as it has room."""
    number = _SET_MEMPOLICY.get(os.uname().machine)
    mask = (ctypes.c_ulong * 16)()
    bits = 8 * ctypes.sizeof(ctypes.c_ulong)
    for node in nodes:
        mask[node // bits] |= 1 << node % bits
    libc = ctypes.CDLL(None, use_errno=True)
    if number is None or libc.syscall(number, _MPOL_BIND, mask, len(mask) * bits) != 0:
        why = os.strerror(ctypes.get_errno()) if number is not None else "not known how on this processor"
        sys.stderr.write(f"memory is not bound to NUMA nodes {nodes}: {why}\n")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
