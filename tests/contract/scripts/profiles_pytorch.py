"""The profiles of PyTorch's adapter: ``python profiles_pytorch.py JOB.json PROCESS OUTPUT.json KIND [ARGUMENT]``.

KIND is ``memory``, or ``steps`` for kernels and layers; each comes with a number that PyTorch has no part in. There is
no loop, so that a profile is alone with its adapter. ARGUMENT of ``memory``: batch sizes, each in a process of its own;
of ``steps``: the size of a bucket in MiB.
"""

import ctypes
import json
import os
import sys
import time

from workers.trainer.frameworks.pytorch import adapter as pytorch
from workers.trainer.frameworks.pytorch import ddp
from workers.trainer.loop import Watch

STEPS = 2


_COUNTS = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"


class _Malloc(ctypes.Structure):
    """``struct mallinfo2`` of glibc 2.33 and newer."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in _COUNTS.split())


def allocated():
    """Return the bytes in use by the C library's own count, or None where it has no such thing."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallinfo2"):
        return None
    library.mallinfo2.restype = _Malloc
    found = library.mallinfo2()
    return found.uordblks + found.hblkhd


def memory(adapter, job, process):
    """The profile, and how much the C library's count grew over the forward pass of the last step."""
    grown = []

    class Minimizer(pytorch.Minimizer):
        def forward(self):
            before = allocated()
            super().forward()
            grown.append(None if before is None else allocated() - before)

    pytorch.Minimizer = Minimizer
    found = adapter.memory_profile(job, process, Watch(time.monotonic))
    return {"memory": found, "grown_bytes": grown[-1]}


def steps(adapter, job, process):
    """Activity, kernels and layers, each with the time around it, and the gradients' bytes."""
    found = {"built": adapter.build(job, process, Watch(time.monotonic))}
    for _ in range(STEPS):
        adapter.step()
    for verb in ("activity", "kernels", "layers"):
        begun = time.monotonic()
        found[verb] = getattr(adapter, verb)(STEPS)
        found[verb + "_around"] = [begun, time.monotonic()]
    found["loss"] = adapter.loss()
    return found


def several(job, process, batches):
    """The profile of memory for each batch size, in forks: PyTorch is imported, and has computed nothing yet."""
    found = []
    for batch in batches:
        reader, writer = os.pipe()
        if os.fork() == 0:
            job["plan"]["per_device_batch_size"] = batch
            with open(writer, "w") as file:
                json.dump(one("memory", job, process), file)
            os._exit(0)
        os.close(writer)
        with open(reader) as file:
            found.append(json.load(file))
        os.wait()
    return found


def one(kind, job, process):
    adapter = pytorch.Adapter()
    adapter.join(job, process)
    found = {"memory": memory, "steps": steps}[kind](adapter, job, process)
    adapter.close()
    return found


def main(job_path, name, target, kind, argument=None):
    with open(job_path) as file:
        job = json.load(file)
    process = next(one for one in job["processes"] if one["name"] == name)
    if argument and kind == "memory":
        found = several(job, process, json.loads(argument))
    else:
        ddp.BUCKET_MIB = float(argument or ddp.BUCKET_MIB)
        found = one(kind, job, process)
    with open(target, "w") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
