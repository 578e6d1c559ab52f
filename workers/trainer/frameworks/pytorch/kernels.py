"""What of a recorded PyTorch trace is an item of the table: kernels on a GPU, operators on CPU devices."""

from workers.trainer.base.signatures import Data
from workers.trainer.frameworks import kernel_table
from workers.trainer.frameworks.pytorch.trace import Trace


def table(trace: Trace, steps: int) -> Data:
    """Return the answer of ``kernels``."""
    method = "kineto kernels" if trace.cuda else "kineto operators, own time"
    return kernel_table.table(_recording(trace), steps, method)


def activity(trace: Trace) -> Data:
    """Return the answer of ``activity``."""
    return kernel_table.activity(_recording(trace), trace.cuda)


def _recording(trace):
    """Items are those that begin within the steps. Waiting for other ranks keeps no CPU device busy."""
    kinds = ("kernel",) if trace.cuda else ("operator", "communication")
    begin, end = trace.whole
    items = [event for event in trace.events if event.kind in kinds and begin <= event.start < end]
    active = [event for event in trace.events if event.kind == kinds[0]]
    return kernel_table.Recording(items, [active], trace.whole, trace.ahead, 1e-6)
