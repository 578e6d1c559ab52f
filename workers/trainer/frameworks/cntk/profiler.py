"""CNTK's profiler: the one place that switches it on, and what of a network its events belong to.

Node timing, without which the profiler says nothing of nodes, cannot be switched off again in CNTK 2.7: every profile
is made after everything that is timed.
"""

import collections
import contextlib
import glob
import os
import shutil
import tempfile
import time
from typing import Any, Callable, List, Tuple

import cntk
import numpy

from workers.trainer.base.signatures import Data
from workers.trainer.frameworks.cntk import trace

# Bytes for the record: a node's pass takes some 50.
_BUFFER_BYTES = 32 * 1024 * 1024


class Recording(object):
    """So many steps under the profiler: its ``spans``, ``elapsed_s``, ``input_s``, and ``ahead_s`` of its clock."""

    def __init__(self, take: Callable[[], Any], trains: Any, synchronize: Callable[[], None], steps: int) -> None:
        """``take``: returns a batch; ``trains``: the updates of a step, each of which trains with one."""
        self.input_s = 0.0
        ends = []
        with _recorded() as folder:
            begun = time.monotonic()
            for train in trains * steps:
                before = time.monotonic()
                batch = take()
                self.input_s += time.monotonic() - before
                train(batch)
                ends.append(time.monotonic())
            synchronize()
            self.elapsed_s = time.monotonic() - begun
            _stop()
            self.spans = trace.read(glob.glob(os.path.join(folder, "*_detail_*"))[0])
        steps_ends = sorted(span.end * 1e-6 for span in self.spans if span.name == trace.ITERATION)
        if len(steps_ends) != len(ends):
            raise RuntimeError("CNTK's profiler has recorded %d of %d updates" % (len(steps_ends), len(ends)))
        # A step's end in the trace comes before our own reading: by the least, the clocks agree best.
        self.ahead_s = min(ours - theirs for ours, theirs in zip(ends, steps_ends))


@contextlib.contextmanager
def _recorded():
    folder = tempfile.mkdtemp(prefix="tbd-trace-")
    try:
        cntk.debugging.set_node_timing(True)
        cntk.debugging.start_profiler(os.path.join(folder, "profile"), True, _BUFFER_BYTES)
        cntk.debugging.enable_profiler()
        yield os.path.join(folder, "profile")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _stop():
    cntk.debugging.disable_profiler()
    cntk.debugging.stop_profiler()


def table(criterion: Any) -> List[Tuple[Data, List[str]]]:
    """Return [(row, [uids])] of a network's layers in the order of the forward pass, for ``trace.layers``.

    A layer is what works with parameters of one name (``fc.weight`` and ``fc.bias``: ``fc``); an operation without
    parameters is one by itself, under its name or its uid.
    """
    rows, uids = collections.OrderedDict(), {}
    for function in _in_order(criterion):
        own = [variable for variable in function.inputs if variable.is_parameter]
        name = own[0].name.rpartition(".")[0] if own else ""
        # CNTK's own names begin so, and are not one of a kind.
        name = name or (function.name if not function.name.startswith("_") else "") or function.uid
        row = rows.setdefault(name, {"name": name, "kind": function.op_name, "parameters_bytes": 0})
        row["parameters_bytes"] += sum(4 * int(numpy.prod(parameter.shape)) for parameter in own)
        uids.setdefault(name, []).append(function.uid)
    return [(row, uids[name]) for name, row in rows.items()]


def _in_order(criterion):
    """Return the primitive functions of a network, each after those that it reads."""
    found, seen = [], set()

    def visit(function):
        if function.uid in seen:
            return
        seen.add(function.uid)
        for variable in function.inputs:
            if variable.is_output:
                visit(variable.owner)
        if function.is_block:
            visit(function.block_root)
        elif function.is_primitive:
            found.append(function)
        elif function.is_composite:
            visit(function.root_function)

    visit(criterion)
    return found
