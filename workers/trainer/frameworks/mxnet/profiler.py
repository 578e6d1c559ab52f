"""MXNet's own profiler: the one place that switches it on, and the profiles made of what it has written.

MXNet can be told only once per process what to record and where to. It works in the background of the engine and
serialises nothing; but operators that the engine runs in one go it cannot tell apart, so they are run one by one here.
"""

import atexit
import contextlib
import os
import shutil
import tempfile
import time
from typing import Any, List, Sequence

from workers.trainer.base.failure import TrainerError
from workers.trainer.base.signatures import Data
from workers.trainer.frameworks.mxnet import layers as mxnet_layers
from workers.trainer.frameworks.mxnet import trace as mxnet_trace
from workers.trainer.frameworks.mxnet.library import mx

_TASK = "tbd.task"
_STEP = "tbd.step"
_INPUT = "tbd.input"
_EXCHANGE = "tbd.exchange"

_ONE_BY_ONE = "MXNet's exchanges are timed one by one after the backward pass, so what it hides of them is not seen"
_SERVERS_UPDATE = "the servers update the weights while they exchange: the exchange holds both"


class _Profiler(object):
    """Begins with the first recording; what it wrote is removed when the process ends."""

    def __init__(self):
        self._path = None
        self._domain = None
        self._tasks = {}

    def begin(self, memory=False):
        """Record from now on; ``memory``: allocations too, which counts only for the first time in a process."""
        if self._path is None:
            folder = tempfile.mkdtemp(prefix="tbd-trace-")
            self._path = os.path.join(folder, "trace.json")
            mx.profiler.set_config(
                profile_symbolic=True, profile_imperative=True, profile_memory=memory, filename=self._path
            )
            self._domain = mx.profiler.Domain("tbd")
            atexit.register(self._remove, folder)
        mx.profiler.set_state("run")

    def end(self):
        """Return the ``Trace`` of everything that this process has recorded so far."""
        mx.profiler.set_state("stop")
        mx.profiler.dump(finished=False)
        return mxnet_trace.read(self._path)

    @contextlib.contextmanager
    def task(self, name):
        """Mark a time in the trace, by a name that is used for one such time after another."""
        if name not in self._tasks:
            self._tasks[name] = self._domain.new_task(name)
        task = self._tasks[name]
        task.start()
        try:
            yield
        finally:
            task.stop()

    def _remove(self, folder):
        mx.profiler.dump()
        shutil.rmtree(folder, ignore_errors=True)


PROFILER = _Profiler()


def activity(step: Any, steps: int) -> Data:
    """Return the answer of ``activity``: operators run as they do in the timed phase."""
    return mxnet_trace.activity(_recorded(step, steps), _TASK, devices(step.contexts))


def kernels(step: Any, steps: int) -> Data:
    """Return the answer of ``kernels``."""
    one_by_one(step)
    return mxnet_trace.kernels(_recorded(step, steps), _TASK, steps, devices(step.contexts), _ahead_s())


def layers(step: Any, steps: int, exchange: Any) -> Data:
    """Return the answer of ``layers``.

    Args:
        exchange: the strategy's ``Exchange``. Where there is one, gradients are exchanged one by one, after the
            backward pass, in the last of the steps: the engine's trace does not say which of them an operator carries.

    Raises:
        TrainerError: ``unsupported``, the model does not say what its network is.
    """
    one_by_one(step)
    if getattr(step.model, "network", None) is None:
        raise TrainerError("unsupported", "the model names no network whose layers could be told apart")
    PROFILER.begin()
    with PROFILER.task(_TASK):
        for number in range(steps):
            alone = exchange.several and number == steps - 1
            with PROFILER.task(_STEP), _watched(exchange, alone) as exchanged:
                _run(step, alone)
    trace = PROFILER.end()
    graph = mxnet_layers.graph(step.model.network, step.model.parameters)
    found = mxnet_layers.attribute(trace, graph, devices(step.contexts), _TASK, _STEP, _INPUT)
    found["steps"] = steps
    if exchange.several:
        _add_exchange(found, trace, exchanged, exchange)
    return found


def _run(step, alone):
    with PROFILER.task(_INPUT):
        step.input()
    step.forward()
    if alone:
        mx.nd.waitall()
    with PROFILER.task(_EXCHANGE + ".backward"):
        step.backward()
        if alone:
            mx.nd.waitall()
    step.update()
    mx.nd.waitall()


@contextlib.contextmanager
def _watched(exchange, alone):
    """Yield the list of (name, bytes) of what is exchanged meanwhile, each waited for; nothing if not ``alone``."""
    found = []

    @contextlib.contextmanager
    def around(name, size):
        mx.nd.waitall()
        with PROFILER.task("%s.%d" % (_EXCHANGE, len(found))):
            found.append((name, size))
            yield
            mx.nd.waitall()

    if not alone:
        yield found
        return
    with exchange.each(around):
        yield found


def _ahead_s():
    """Return CLOCK_MONOTONIC less the trace's clock, by the closest of five readings of both."""
    readings = []
    for _ in range(5):
        before, wall, after = time.monotonic(), time.time(), time.monotonic()
        readings.append((after - before, (before + after) / 2 - wall))
    return min(readings)[1]


def _add_exchange(found, trace, exchanged, exchange):
    begun = trace.tasks[_EXCHANGE + ".backward"][-1][0]
    found["backward_t"] = begun * 1e-6 + _ahead_s()
    for number, (name, size) in enumerate(exchanged):
        start, end = trace.tasks["%s.%d" % (_EXCHANGE, number)][-1]
        entry = {"name": name, "bytes": size, "start_s": (start - begun) * 1e-6, "end_s": (end - begun) * 1e-6}
        found["exchanges"].append(entry)
    breakdown = found["breakdown"]
    breakdown["exchange_s"] = sum(entry["end_s"] - entry["start_s"] for entry in found["exchanges"])
    found["method"] += "; exchange: each gradient by itself, after the backward pass of the last step"
    found["exposed_exchange_s"] = None
    breakdown["reasons"] = {"exposed_exchange_s": _ONE_BY_ONE}
    if exchange.servers_update:
        breakdown["update_s"] = None
        breakdown["reasons"]["update_s"] = _SERVERS_UPDATE


def _recorded(step, steps):
    PROFILER.begin()
    with PROFILER.task(_TASK):
        for _ in range(steps):
            step.run()
        mx.nd.waitall()
    return PROFILER.end()


def one_by_one(step: Any) -> None:
    """Have the engine run each operator by itself from now on, with a step's passes rehearsed but no update.

    The plan of the memory stays that of the training. It is not undone: nothing is timed any more.
    """
    network = getattr(step.model, "network", None)
    mx.engine.set_bulk_size(0)
    if network is None or getattr(network, "_tbd_one_by_one", False):
        return
    network.hybridize(static_alloc=True, static_shape=True, forward_bulk_size=0, backward_bulk_size=0)
    network._tbd_one_by_one = True
    step.rehearse()
    mx.nd.waitall()


def devices(contexts: Sequence[Any]) -> List[str]:
    """Return the names of the contexts in the trace."""
    return ["%s/%d" % (context.device_type, context.device_id) for context in contexts]
