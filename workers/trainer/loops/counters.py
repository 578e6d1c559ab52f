"""One step under the hardware's counters: a process that ``ncu`` watches, started by the node agent.

Kernels are replayed while they are counted, so what this process takes says nothing of speed, and a run of several
ranks would wait for itself: it is made for one rank only. Only what lies between the driver's profiler marks is
counted, which are set in the driver itself (libcuda), whatever the framework.
"""

import ctypes
from typing import Any, Callable, Optional, Tuple

from workers.trainer.base.failure import TrainerError
from workers.trainer.base.job import Job, Process
from workers.trainer.base.signatures import Adapter, Clock, Emit, Watch
from workers.trainer.control import Channel

# What sets the driver's marks: (start, stop).
Marks = Tuple[Callable[[], Any], Callable[[], Any]]

# Steps before the one that is counted: algorithms are chosen and memory is taken by then.
WARM_UP_STEPS = 3

# What is called of the driver.
_DRIVER = ("cuInit", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", "cuProfilerStart", "cuProfilerStop")


def profiler_marks() -> Marks:
    """Return (start, stop), which set the driver's profiler marks (CUDA driver API, cuProfilerStart and -Stop).

    A mark counts for the context of the thread that sets it, and a framework may compute in threads of its own. So the
    context that they all share, the device's primary one, is made current first.

    Raises:
        TrainerError: ``unsupported``, there is no such driver; from ``start`` and ``stop`` too, the driver refuses.
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        for name in _DRIVER:
            getattr(driver, name)
    except (OSError, AttributeError) as error:
        raise TrainerError("unsupported", "the CUDA driver has no profiler marks: %s" % error)

    def marked(name):
        context = ctypes.c_void_p()
        _call(driver, "cuInit", 0)
        # The agent shows this process its own device only: number 0.
        _call(driver, "cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        _call(driver, "cuCtxSetCurrent", context)
        _call(driver, name)

    return lambda: marked("cuProfilerStart"), lambda: marked("cuProfilerStop")


def _call(driver, name, *arguments):
    """Call a function of the driver, which returns a CUresult: 0 where all is well."""
    status = getattr(driver, name)(*arguments)
    if status != 0:
        raise TrainerError("unsupported", "the CUDA driver refuses %s: CUresult %d" % (name, status))


def counted_step(
    job: Job,
    process: Process,
    adapter: Adapter,
    channel: Channel,
    emit: Emit,
    watch: Watch,
    clock: Clock,
    marks: Optional[Marks] = None,
) -> None:
    """Build the model, run a few steps, and one between the marks; says ``profiled`` when it is done.

    Raises:
        TrainerError: several ranks take part, or the driver has no marks.
    """
    if job.world_size != 1:
        raise TrainerError("unsupported", "kernels are replayed while they are counted: one rank only")
    start, stop = marks or profiler_marks()
    begun = clock()
    channel.join()
    adapter.join(job, process)
    adapter.build(job, process, watch)
    for _ in range(WARM_UP_STEPS):
        adapter.step()
    adapter.synchronize()
    start()
    adapter.step()
    adapter.synchronize()
    stop()
    emit("profiled", profile="counters", steps=1, elapsed_s=clock() - begun)
