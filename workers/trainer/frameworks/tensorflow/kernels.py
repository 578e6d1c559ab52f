"""What of a recorded TensorFlow trace is an item of the table: kernels on GPUs, operators on CPU devices.

An operator that only starts something and returns, as an exchange between processes does, has the time of the starting:
see the exchange in ``layers``.
"""

from typing import Any

from workers.trainer.base.signatures import Data
from workers.trainer.frameworks import kernel_table

# Operators that last as long as an exchange with other processes.
_WAITING = "Collective"


def table(trace: Any, steps: int, gpu: bool) -> Data:
    """Return the answer of ``kernels``."""
    return kernel_table.table(_recording(trace, gpu), steps, "xplane kernels" if gpu else "xplane operators, own time")


def activity(trace: Any, gpu: bool) -> Data:
    """Return the answer of ``activity``."""
    return kernel_table.activity(_recording(trace, gpu), gpu)


def _recording(trace, gpu):
    """All CPU devices of a process are one pool of threads, which waiting for other ranks does not keep busy."""
    begin, end = trace.whole
    events = [event for events in trace.kernels for event in events] if gpu else trace.operators
    items = [event for event in events if begin <= event.start < end]
    active = trace.kernels if gpu else [[one for one in trace.operators if not one.name.startswith(_WAITING)]]
    return kernel_table.Recording(items, active, trace.whole, trace.ahead, 1.0)
