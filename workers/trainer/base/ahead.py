"""What a rank may use of its node to make batches ahead of the training: threads or processes, and shared memory.

Several ranks of a node, and several runs on it, have a share each.
"""

import os
from typing import Tuple

from workers.trainer import protocol
from workers.trainer.base.failure import TrainerError

# Where the processes of PyTorch's ``DataLoader`` leave their batches. Writing more than there is is a bus error.
SHARED = "/dev/shm"


def decoders() -> int:
    """Return how many threads or processes of a rank decode: half of its cores, the others are left to the training."""
    told = os.environ.get(protocol.DECODERS_VARIABLE, "")
    return int(told) if told.isdigit() and int(told) else max(1, len(os.sched_getaffinity(0)) // 2)


def shared_bytes() -> int:
    """Return what a rank may fill of the shared memory: half of its share, which is that of the host's cores."""
    found = os.statvfs(SHARED)
    return found.f_blocks * found.f_frsize * decoders() // max(2, os.cpu_count() or 1)


def in_flight(batch_bytes: int, ahead: int) -> Tuple[int, int]:
    """Return (processes, batches that each makes ahead, ``ahead`` at most), whose batches have room in shared memory.

    Raises:
        TrainerError: ``setup_failed``, there is no room for a single one.
    """
    room = shared_bytes() // batch_bytes
    if not room:
        raise TrainerError(
            "setup_failed",
            "a batch of %d bytes has no room in the %d of %s that this rank may fill: give it more (docker run"
            " --shm-size; mount -o remount,size=…), or take a smaller batch" % (batch_bytes, shared_bytes(), SHARED),
        )
    processes = min(decoders(), room)
    return processes, min(ahead, room // processes)
