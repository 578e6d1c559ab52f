"""MXNet: one process, one device or all devices of its node, in fp32, with Gluon and hybridized networks.

A model for it is ``build(job, contexts)`` in ``suites/models/<model>/mxnet.py``, which returns an object with
``parameters`` (all weights, a list in a fixed order, initialised on all ``contexts``), ``updates`` (see
``workers.trainer.base.updates``: losses are arrays of one number, on the device of the batch) and ``batches(rank)`` (an
endless iterator of (arrays, work)). Its layers can be told apart if it also has ``network``, the one hybridized block
that computes the loss.
"""

import importlib
import os
from typing import Any, Dict, Iterator, Optional, Sequence, Tuple

from suites import modules
from workers.trainer.base import optimizer as rules
from workers.trainer.base import updates
from workers.trainer.base.failure import TrainerError
from workers.trainer.base.job import Job, Process
from workers.trainer.base.signatures import Array, Arrays, Data, Watch, Work
from workers.trainer.frameworks.mxnet import checkpoint, memory, precision, profiler, store
from workers.trainer.frameworks.mxnet.library import mx
from workers.trainer.frameworks.mxnet.step import Step, Steps

# What MXNet 1.9.1 says when it gets no memory: of the host (cpu_device_storage.h), of a GPU (pooled_storage_manager.h).
SHORTAGES = ("Failed to allocate CPU Memory", "cudaMalloc retry failed", "out of memory", "std::bad_alloc")

# Between the seeds of two steps.
_SEEDS = 65537


class Adapter(object):
    """See ``workers.trainer.frameworks``."""

    abilities = ("activity", "checkpoint", "evaluate", "kernels", "layers", "memory")
    # Layers are told apart by the one graph of a network, memory by the sizes of its arrays.
    abilities_with_several = ("activity", "kernels")
    checkpointed = ("single", "kvstore-device", "kvstore-dist-sync", "kvstore-dist-device-sync", "horovod")
    not_checkpointed = {"kvstore-dist-async": "the optimiser and its state are in MXNet's servers, which give neither"}
    switches = ()

    def __init__(self) -> None:
        self._contexts = []
        self._mathematics = None
        self._exchange = None
        self._step = None
        self._complete = False
        self._seed = None
        self._repeats = True

    def versions(self) -> Data:
        libraries = {"numpy": importlib.import_module("numpy").__version__}
        features = mx.runtime.Features()
        for library, feature in (("mkldnn", "MKLDNN"), ("cuda", "CUDA"), ("cudnn", "CUDNN"), ("nccl", "NCCL")):
            if feature in features:
                libraries[library] = "enabled" if features.is_enabled(feature) else "disabled"
        return {"framework": "mxnet", "version": mx.__version__, "libraries": libraries}

    def join(self, job: Job, process: Process) -> int:
        self._exchange = _exchanges(job).Exchange()
        return self._exchange.join(job, process)

    @property
    def joined(self) -> Any:
        return self._exchange

    def serve(self, job: Job, process: Process) -> None:
        store.serve(job, process)

    def build(self, job: Job, process: Process, watch: Watch) -> Data:
        self._make(job, process)
        self._feed(process, watch)
        model = self._step.model
        parameters = sum(parameter.data(self._contexts[0]).size for parameter in model.parameters)
        return {
            "parameters": parameters,
            "mathematics": self._mathematics,
            "device": _device_name(self._contexts),
            "exchange": self._exchange.exchange(),
        }

    def _make(self, job, process):
        """Make all of a step but its input."""
        self._mathematics = precision.apply(job.plan.precision, process.device_kind)
        self._contexts = _contexts(process)
        self._seed = job.plan.seed
        self._repeats = modules.repeats(job)
        mx.random.seed(self._seed)
        model = modules.builder_of(job).build(job, self._contexts)
        steps = []
        for update in updates.of_model(model, job):
            first = sum(len(parameters) for _, parameters in steps)
            rule = rules.complete(update.optimizer)
            trainer, divisor = self._exchange.trainer(update.parameters, rule, first)
            limit, servers_update = rule["gradient_norm_limit"], self._exchange.servers_update
            step = Step(model, update.loss, self._contexts, trainer, divisor, update.times, limit, servers_update)
            steps.append((step, update.parameters))
        self._step = steps[0][0] if len(steps) == 1 else Steps(steps)
        return self._step

    def _feed(self, process, watch):
        self._step.streams = [watch(self._step.model.batches(rank)) for rank in sorted(process.ranks)]

    def step(self) -> Work:
        return self._step.run()

    def synchronize(self) -> None:
        """Wait for everything that was begun, the exchange too."""
        mx.nd.waitall()

    def loss(self) -> float:
        return self._step.loss()

    def activity(self, steps: int) -> Data:
        """Profile ``steps`` steps: union of operator intervals, on a GPU too, of which it knows no kernels."""
        return profiler.activity(self._step, steps)

    def kernels(self, steps: int) -> Data:
        """The engine's operators, on a GPU too: of its kernels MXNet knows nothing."""
        return profiler.kernels(self._step, steps)

    def layers(self, steps: int) -> Data:
        return profiler.layers(self._step, steps, self._exchange)

    def memory_profile(self, job: Job, process: Process, watch: Watch) -> Data:
        def feed():
            self._feed(process, watch)

        return memory.profile(lambda: self._make(job, process), feed, _contexts(process))

    def memory(self) -> Optional[Data]:
        if not self._contexts or self._contexts[0].device_type != "gpu":
            return None
        used = [total - free for free, total in map(mx.context.gpu_memory_info, range(len(self._contexts)))]
        # MXNet keeps what it once took from CUDA: what it holds at the end is what it held at the peak.
        return {"peak_bytes": sum(used), "method": "mxnet.context.gpu_memory_info: total - free, CUDA's own included"}

    def forget_peak(self) -> Optional[int]:
        """None: it does not count anew, and keeps what it once took."""

    def weights(self, index: int) -> Iterator[Array]:
        # They are asked for when all ranks have trained to the end, and then only.
        self._complete = True
        for parameter in self._step.model.parameters:
            yield parameter.data(self._contexts[index]).asnumpy()

    def gradients(self) -> Data:
        model = self._step.model
        loss, found = self._step.gradients(model.parameters)
        return {"loss": loss, "gradients": model.described(found), "margins": {}}

    def state(self) -> Data:
        model = self._step.model
        return {"weights": model.described(self.weights(0)), "statistics": model.running()}

    def outputs(self, batch: Sequence[Array]) -> Tuple[Array, ...]:
        return self._evaluated(batch)[0]

    def evaluate(self, batch: Sequence[Array]) -> Tuple[Tuple[Array, ...], float]:
        outputs, loss = self._evaluated(batch)
        return outputs, float(loss.astype("float32", copy=False).asscalar())

    def _evaluated(self, batch):
        outputs, loss = self._step.model.evaluated(batch, self._contexts[0])
        # In mixed precision the last product may be a bfloat16, which numpy does not know.
        return tuple(one.astype("float32", copy=False).asnumpy() for one in outputs), loss

    def checkpoint(self) -> Dict[str, Array]:
        return checkpoint.taken(self._step.model.network, self._step.trainers)

    def restore(self, arrays: Arrays, steps: int) -> None:
        for stream in self._step.streams:
            for _ in range(steps * self._step.times if self._repeats else 0):
                next(stream)
        checkpoint.given(self._step.model.network, self._step.trainers, arrays)

    def reseed(self, steps: int) -> None:
        mx.random.seed((self._seed + steps * _SEEDS) % 2**31)

    def close(self) -> None:
        self._step = None
        # After a failure there may be nobody left to part from.
        if self._complete:
            self._exchange.part()

    def failure_of(self, error: BaseException) -> Optional[str]:
        if isinstance(error, mx.MXNetError) and any(words in str(error) for words in SHORTAGES):
            return "out_of_memory"
        return self._exchange.failure_of(error) if self._exchange else None


def _exchanges(job):
    """Return the module of the strategy's exchange; that of Horovod is not there in every interpreter."""
    name = "horovod" if job.plan.strategy == "horovod" else "store"
    return importlib.import_module("workers.trainer.frameworks.mxnet." + name)


def _contexts(process):
    """Return the MXNet context of each device of ``process``; the agent has hidden all other GPUs.

    CPU devices are contexts with queues and threads of their own; which cores they use is one set for all of them.

    Raises:
        TrainerError: ``unsupported``, this build or this host has not so many GPUs to offer.
    """
    count = len(process.ranks)
    if process.device_kind == "cpu":
        return [mx.cpu(index) for index in range(count)]
    found = mx.context.num_gpus()
    if found < count:
        raise TrainerError("unsupported", "MXNet %s finds %d GPUs here, %d are needed" % (mx.__version__, found, count))
    return [mx.gpu(index) for index in range(count)]


def _device_name(contexts):
    """MXNet does not know what its GPUs are called."""
    return "cpu" if contexts[0].device_type == "cpu" else "cuda:%s" % os.environ.get("CUDA_VISIBLE_DEVICES", "")
