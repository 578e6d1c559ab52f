"""MXNet: one process, one device or all devices of its node, in fp32, with Gluon and hybridized networks.

A model for it is ``build(job, contexts)`` in ``suites/models/<model>/mxnet.py``, which returns an object with
``parameters`` (the trainable ones, a list in a fixed order, initialised on all ``contexts``), ``loss(batch)`` (an array
of one number, on the device of the batch), ``batches(rank)`` (an endless iterator of (arrays, work)) and ``optimizer``
{learning_rate, momentum, weight_decay}.
"""

import collections
import importlib
import os
import shutil
import tempfile

from workers.trainer import job as jobs
from workers.trainer.failure import TrainerError
from workers.trainer.frameworks import mxnet_trace
from workers.trainer.frameworks.mxnet_library import mx

# What MXNet 1.9.1 says when it gets no memory: of the host (cpu_device_storage.h), of a GPU (pooled_storage_manager.h).
SHORTAGES = ("Failed to allocate CPU Memory", "cudaMalloc retry failed", "out of memory", "std::bad_alloc")


class Adapter(object):
    """See ``workers.trainer.frameworks``."""

    abilities = ("activity",)

    def __init__(self):
        self._contexts = []
        self._exchange = None
        self._model = None
        self._trainer = None
        self._divisor = None
        self._streams = []
        self._losses = []
        self._complete = False

    def versions(self):
        libraries = {"numpy": importlib.import_module("numpy").__version__}
        features = mx.runtime.Features()
        for library, feature in (("mkldnn", "MKLDNN"), ("cuda", "CUDA"), ("cudnn", "CUDNN"), ("nccl", "NCCL")):
            if feature in features:
                libraries[library] = "enabled" if features.is_enabled(feature) else "disabled"
        return {"framework": "mxnet", "version": mx.__version__, "libraries": libraries}

    def join(self, job, process):
        self._exchange = _exchanges(job).Exchange()
        return self._exchange.join(job, process)

    def serve(self, job, process):
        _exchanges(job).serve(job, process)

    def build(self, job, process, watch):
        if job["plan"]["precision"] != "fp32":
            raise TrainerError("unsupported", "this adapter computes in fp32, not in %s" % job["plan"]["precision"])
        self._contexts = _contexts(process)
        mx.random.seed(job["plan"]["seed"])
        self._model = importlib.import_module(job["model"]["module"] + ".mxnet").build(job, self._contexts)
        self._trainer, self._divisor = self._exchange.trainer(self._model.parameters, self._model.optimizer)
        self._streams = [watch(self._model.batches(rank)) for rank in sorted(process["ranks"])]
        parameters = sum(parameter.data(self._contexts[0]).size for parameter in self._model.parameters)
        mathematics = {"precision": "fp32", "tf32": False, "threads": jobs.threads()}
        return {
            "parameters": parameters,
            "mathematics": mathematics,
            "device": _device_name(self._contexts),
            "exchange": self._exchange.exchange(),
        }

    def step(self):
        total = collections.OrderedDict()
        batches = [next(stream) for stream in self._streams]
        losses = []
        with mx.autograd.record():
            for context, (arrays, work) in zip(self._contexts, batches):
                losses.append(self._model.loss([array.as_in_context(context) for array in arrays]))
                for unit, amount in work.items():
                    total[unit] = total.get(unit, 0) + amount
        mx.autograd.backward(losses)
        self._trainer.step(self._divisor)
        self._losses = losses
        return total

    def synchronize(self):
        """Wait for everything that was begun, the exchange too."""
        mx.nd.waitall()

    def loss(self):
        return sum(float(loss.asscalar()) for loss in self._losses) / len(self._losses)

    def activity(self, steps):
        """Profile ``steps`` steps: union of operator intervals, on a GPU too, of which it knows no kernels."""
        folder = tempfile.mkdtemp(prefix="tbd-trace-")
        path = os.path.join(folder, "trace.json")
        try:
            mx.profiler.set_config(profile_symbolic=True, profile_imperative=True, filename=path)
            mx.profiler.set_state("run")
            task = mx.profiler.Domain("tbd").new_task("tbd.activity")
            task.start()
            for _ in range(steps):
                self.step()
            self.synchronize()
            task.stop()
            mx.profiler.set_state("stop")
            mx.profiler.dump()
            names = ["%s/%d" % (context.device_type, context.device_id) for context in self._contexts]
            return mxnet_trace.activity(path, "tbd.activity", names)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def memory(self):
        if not self._contexts or self._contexts[0].device_type != "gpu":
            return None
        used = [total - free for free, total in map(mx.context.gpu_memory_info, range(len(self._contexts)))]
        # MXNet keeps what it once took from CUDA: what it holds at the end is what it held at the peak.
        return {"peak_bytes": sum(used), "method": "mxnet.context.gpu_memory_info: total - free, CUDA's own included"}

    def weights(self, index):
        # They are asked for when all ranks have trained to the end, and then only.
        self._complete = True
        for parameter in self._model.parameters:
            yield parameter.data(self._contexts[index]).asnumpy()

    def close(self):
        self._streams = []
        self._model = self._trainer = None
        # After a failure there may be nobody left to part from.
        if self._complete:
            self._exchange.part()

    def failure_of(self, error):
        if isinstance(error, mx.MXNetError) and any(words in str(error) for words in SHORTAGES):
            return "out_of_memory"
        return self._exchange.failure_of(error) if self._exchange else None


def _exchanges(job):
    """Return the module of the strategy's exchange; that of Horovod is not there in every interpreter."""
    name = "mxnet_horovod" if job["plan"]["strategy"] == "horovod" else "mxnet_store"
    return importlib.import_module("workers.trainer.frameworks." + name)


def _contexts(process):
    """Return the MXNet context of each device of ``process``; the agent has hidden all other GPUs.

    CPU devices are contexts with queues and threads of their own; which cores they use is one set for all of them.

    Raises:
        TrainerError: ``unsupported``, this build or this host has not so many GPUs to offer.
    """
    count = len(process["ranks"])
    if jobs.device_kind(process) == "cpu":
        return [mx.cpu(index) for index in range(count)]
    found = mx.context.num_gpus()
    if found < count:
        raise TrainerError("unsupported", "MXNet %s finds %d GPUs here, %d are needed" % (mx.__version__, found, count))
    return [mx.gpu(index) for index in range(count)]


def _device_name(contexts):
    """MXNet does not know what its GPUs are called."""
    return "cpu" if contexts[0].device_type == "cpu" else "cuda:%s" % os.environ.get("CUDA_VISIBLE_DEVICES", "")
