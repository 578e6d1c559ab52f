"""What a training process asks of its host: the lock on each of its devices, and its own peak of memory."""

import fcntl
import os
import re
from typing import List, Optional, Sequence

from workers.trainer.base.failure import TrainerError
from workers.trainer.base.job import Device
from workers.trainer.base.signatures import Data


def lock_path(lock_dir: str, device_id: str) -> str:
    """Return the lock file of a device: what is neither letter, digit, ``.`` nor ``-`` in its id becomes ``_``."""
    return os.path.join(lock_dir, re.sub(r"[^A-Za-z0-9.-]", "_", device_id) + ".lock")


def lock_devices(lock_dir: Optional[str], devices: Sequence[Device]) -> List[int]:
    """Take the lock of every device; return the descriptors, to be kept open as long as the process lives.

    Where there is no ``lock_dir`` nothing is locked. A lock outlives an agent that lost its memory: a device is free
    only when the process that held it is gone.

    Raises:
        TrainerError: ``setup_failed``, another process holds a device.
    """
    if not lock_dir:
        return []
    return [_lock(lock_path(lock_dir, device.id), device.id) for device in devices]


def _lock(path, device_id):
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.read(descriptor, 32).decode("ascii", "replace").strip()
        os.close(descriptor)
        raise TrainerError(
            "setup_failed", "device in use: %s is held by process %s" % (device_id, holder or "(unknown)")
        )
    os.ftruncate(descriptor, 0)
    os.write(descriptor, b"%d\n" % os.getpid())
    return descriptor


def peak_resident() -> Data:
    """Return the data of a ``memory`` event for devices that are CPU cores: the process's own peak resident set.

    ``VmHWM`` starts anew with exec, which ``ru_maxrss`` of getrusage does not: that one would carry over the size of
    the agent that forked us. It holds the framework's code and data too, not only its tensors.
    """
    method = "peak resident set of the process (VmHWM)"
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return {"peak_bytes": int(line.split()[1]) * 1024, "method": method}
    return {"peak_bytes": None, "method": method, "reason": "the kernel reports no VmHWM"}
