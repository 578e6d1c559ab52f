"""TensorFlow, with a training step of our own in a ``tf.function``; a process may drive several devices.

A model for it is ``build(job, process)`` in ``suites/models/<model>/tensorflow.py``, which returns an object with
``variables`` (all trainable ones, in a fixed order), ``updates`` (see ``workers.trainer.base.updates``: losses are
scalar tensors, made in a ``tf.function``) and ``batches(rank)`` (an endless iterator of (tensors, work)). One that
casts by itself has ``precision``, what it computes in (see ``precision.check``). One that drops at random has
``draw(step)``, by which what is dropped is a matter of the step.
"""

import collections
import importlib
import itertools
from typing import Any, Dict, Iterator, Optional, Sequence, Tuple

import tensorflow as tf

from suites import modules
from workers.trainer.base import job as jobs
from workers.trainer.base import updates
from workers.trainer.base.failure import TrainerError
from workers.trainer.base.job import Job, Process
from workers.trainer.base.signatures import Array, Arrays, Data, Watch, Work
from workers.trainer.base.work import total
from workers.trainer.frameworks.tensorflow import checkpoint, kernels, layers, memory, scopes
from workers.trainer.frameworks.tensorflow import graph as tensorflow_graph
from workers.trainer.frameworks.tensorflow import precision as arithmetic
from workers.trainer.frameworks.tensorflow import trace as tensorflow_trace
from workers.trainer.frameworks.tensorflow.minimizer import Minimizer, wide

# strategy -> the module with its class ``Strategy`` (see ``single``). Each is imported only where it is
# asked for: the interpreter of one strategy need not have the library of another.
STRATEGIES = {
    "single": "single",
    "mirrored": "mirrored",
    "multi-worker-mirrored": "multi_worker",
    "horovod": "horovod",
}


class Adapter(object):
    """See ``workers.trainer.frameworks``."""

    abilities = ("activity", "checkpoint", "evaluate", "kernels", "layers", "memory")
    abilities_with_several = ("activity", "kernels", "layers", "memory")
    checkpointed = ("single", "mirrored", "multi-worker-mirrored", "horovod")
    switches = ("xla",)

    def __init__(self) -> None:
        self._device = None
        self._mathematics = None
        self._strategy = None
        self._world_size = None
        self._seed = None
        self._repeats = True
        self._steps = 0
        self._model = None
        self._minimizers = []
        # Each as often as a step carries it out.
        self._order = []
        self._batches = None
        self._batch = None

    def versions(self) -> Data:
        libraries = {"numpy": importlib.import_module("numpy").__version__}
        build = tf.sysconfig.get_build_info()
        for name in ("cuda_version", "cudnn_version"):
            if build.get(name):
                libraries[name.split("_")[0]] = build[name]
        return {"framework": "tensorflow", "version": tf.__version__, "libraries": libraries}

    def join(self, job: Job, process: Process) -> int:
        self._device = _device(process)
        self._mathematics = _mathematics(job.plan.precision, process.device_kind)
        if job.phase == "memory":
            memory.prepare()
        self._strategy = _strategy(job)
        self._world_size = self._strategy.join(job, process, self._device)
        return self._world_size

    @property
    def joined(self) -> Any:
        return self._strategy

    def build(self, job: Job, process: Process, watch: Watch) -> Data:
        self._seed = job.plan.seed
        self._repeats = modules.repeats(job)
        tf.random.set_seed(self._seed)
        compiled = "xla" in job.plan.switches
        with self._strategy.scope():
            self._model = modules.builder_of(job).build(job, process)
            arithmetic.check(self._model, job.plan.precision, process.device_kind)
            found = updates.of_model(self._model, job)
            scaled = job.plan.precision == "amp-fp16"
            alone = len(found) == 1
            self._minimizers = [Minimizer(update, self._strategy, compiled, scaled, alone) for update in found]
        self._order = [one for one in self._minimizers for _ in range(one.times)]
        self._strategy.begin(self._model.variables)
        self._batches = [watch(self._model.batches(rank)) for rank in process.ranks]
        if compiled:
            self._compile()
            tf.random.set_seed(self._seed)
        parameters = sum(variable.shape.num_elements() for variable in self._model.variables)
        return {
            "parameters": parameters,
            "mathematics": dict(self._mathematics, jit_compile=compiled),
            "device": self._device_name(),
            "exchange": self._strategy.exchange(),
        }

    def _compile(self):
        """Let XLA compile all updates, by batches that the first step then takes again."""
        taken = [[next(stream) for _ in self._order] for stream in self._batches]
        for minimizer in self._minimizers:
            number = self._order.index(minimizer)
            minimizer.rehearse(self._strategy.batch([batches[number][0] for batches in taken]))
        self._batches = [itertools.chain(batches, stream) for batches, stream in zip(taken, self._batches)]

    def step(self) -> Work:
        works = []
        self._steps += 1
        if hasattr(self._model, "draw"):
            self._model.draw(self._steps)
        for minimizer in self._order:
            self._batch, work = self._fetch()
            minimizer(self._batch)
            works.append(work)
        return works[0] if len(works) == 1 else total(works)

    def _fetch(self):
        found = [next(batches) for batches in self._batches]
        return self._strategy.batch([batch for batch, _ in found]), total([work for _, work in found])

    def synchronize(self) -> None:
        """Fetch the last losses: updates are in the same graph call, and a device runs its calls in order."""
        for minimizer in self._minimizers:
            minimizer.losses()
        if self._on_gpu():
            tf.test.experimental.sync_devices()

    def loss(self) -> float:
        losses = self._minimizers[0].losses()
        return sum(losses) / len(losses)

    def activity(self, steps: int) -> Data:
        """Profile ``steps`` steps: union of kernel intervals on a GPU, of operator intervals on a CPU device."""
        return kernels.activity(self._record(steps), self._on_gpu())

    def kernels(self, steps: int) -> Data:
        return kernels.table(self._record(steps), steps, self._on_gpu())

    def layers(self, steps: int) -> Data:
        trace = self._record(steps)
        variables = [self._strategy.of_ranks(variable)[0] for variable in self._model.variables]
        described = []
        for minimizer, graph in self._graphs():
            described.append((tensorflow_graph.describe(graph, variables), minimizer.times))
            # Each weight is counted with what reads it first.
            variables = tensorflow_graph.unread(graph, variables)
        return layers.profile(trace, steps, described, self._world_size > 1, self._on_gpu())

    def memory_profile(self, job: Job, process: Process, watch: Watch) -> Data:
        return memory.profile(
            lambda: self.build(job, process, watch),
            lambda: (self.step(), self.synchronize()),
            self._owned,
            lambda: [one for minimizer in self._order for one in minimizer.gradients.values()],
            self._lookups,
            self._on_gpu(),
        )

    def _owned(self):
        """Return [(class, tensor)] of what has a role in memory: of all ranks of this process, on GPUs of its first."""
        ranks = slice(1) if self._on_gpu() else slice(None)
        found = []
        states = [variable for minimizer in self._minimizers for variable in minimizer.optimizer.state]
        for name, variables in (("weights", self._model.variables), ("optimizer_state", states)):
            found.extend((name, one) for variable in variables for one in self._strategy.of_ranks(variable)[ranks])
        batch = self._strategy.of_ranks(self._batch)[ranks] if self._batch is not None else []
        found.extend(("input", tensor) for tensor in tf.nest.flatten(batch))
        return found

    def _lookups(self):
        variables = [one for variable in self._model.variables for one in self._strategy.of_ranks(variable)]
        return {one for _, graph in self._graphs() for one in tensorflow_graph.lookups(graph, variables)}

    def _graphs(self):
        """Return (update, the graph that it is traced to) of each, by the batches of another step."""
        found = collections.OrderedDict()
        for minimizer in self._order:
            batch, _ = self._fetch()
            found[minimizer] = minimizer.graph(batch)
        return found.items()

    def _record(self, steps):
        position = self._strategy.position()
        if position is not None:
            self.step()
            self.synchronize()
        return tensorflow_trace.record(lambda: self._run(steps, position))

    def _run(self, steps, position):
        for _ in range(steps):
            self._strategy.rewind(position)
            for minimizer in self._order:
                with tensorflow_trace.mark(scopes.INPUT):
                    batch, _ = self._fetch()
                minimizer(batch)
        self.synchronize()

    def memory(self) -> Optional[Data]:
        if not self._on_gpu():
            return None
        peaks = [tf.config.experimental.get_memory_info(name)["peak"] for name in _gpus()]
        return {"peak_bytes": max(peaks), "method": "tf.config.experimental.get_memory_info, the fullest GPU"}

    def forget_peak(self) -> Optional[int]:
        found = self.memory()
        if found is None:
            return None
        for name in _gpus():
            tf.config.experimental.reset_memory_stats(name)
        return found["peak_bytes"]

    def weights(self, index: int) -> Iterator[Array]:
        for variable in self._model.variables:
            yield wide(self._strategy.of_ranks(variable)[index])

    def gradients(self) -> Data:
        loss, found = None, {}
        for minimizer in self._minimizers:
            batch, _ = self._fetch()
            one, gradients = minimizer.compute(batch)
            loss = one if loss is None else loss
            for variable, gradient in zip(minimizer.variables, gradients):
                found[id(variable)] = found.get(id(variable), 0.0) + gradient
        # None of what is not trained.
        arrays = [found.get(id(variable)) for variable in self._model.variables]
        return {"loss": loss, "gradients": self._model.network.described(arrays), "margins": {}}

    def state(self) -> Data:
        network = self._model.network
        return {"weights": network.described(self.weights(0)), "statistics": network.running()}

    def outputs(self, batch: Sequence[Array]) -> Tuple[Array, ...]:
        return self._evaluated(batch)[0]

    def evaluate(self, batch: Sequence[Array]) -> Tuple[Tuple[Array, ...], float]:
        outputs, loss = self._evaluated(batch)
        return outputs, float(loss.numpy())

    def _evaluated(self, batch):
        with tf.device(self._device):
            outputs, loss = self._model.evaluated([tf.constant(array) for array in batch])
        return tuple(one.numpy() for one in outputs), loss

    def checkpoint(self) -> Dict[str, Array]:
        return checkpoint.taken(self._model, self._minimizers, self._strategy)

    def restore(self, arrays: Arrays, steps: int) -> None:
        for batches in self._batches:
            for _ in range(steps * len(self._order) if self._repeats else 0):
                next(batches)
        checkpoint.given(self._model, self._minimizers, self._strategy, arrays)
        self._steps = steps

    def close(self) -> None:
        self._batches = self._model = None
        self._minimizers = self._order = []
        if self._strategy:
            self._strategy.close()

    def failure_of(self, error: BaseException) -> Optional[str]:
        if isinstance(error, tf.errors.ResourceExhaustedError):
            return "out_of_memory"
        return self._strategy.failure_of(error) if self._strategy else None

    def _on_gpu(self):
        return self._device.startswith("/GPU")

    def _device_name(self):
        if not self._on_gpu():
            return "cpu"
        details = tf.config.experimental.get_device_details(tf.config.list_physical_devices("GPU")[0])
        return details.get("device_name", "unknown GPU")


def _gpus():
    """Return the GPUs of this process as TensorFlow names them where it is asked for memory: ``GPU:0``."""
    return [device.name.partition("device:")[2] for device in tf.config.list_logical_devices("GPU")]


def _strategy(job):
    module = STRATEGIES[job.plan.strategy]
    return importlib.import_module("workers.trainer.frameworks.tensorflow." + module).Strategy()


def _device(process):
    """Return the device's name; the agent has hidden all GPUs but this process's own.

    Raises:
        TrainerError: ``unsupported``, this build or this host has no GPU to offer.
    """
    if process.device_kind == "cpu":
        return "/CPU:0"
    if not tf.config.list_physical_devices("GPU"):
        raise TrainerError("unsupported", "TensorFlow %s finds no GPU here" % tf.__version__)
    return "/GPU:0"


def _mathematics(precision, kind):
    """Set the precision and the threads, before TensorFlow computes anything; return what is in force."""
    in_force = arithmetic.apply(precision, kind)
    threads = jobs.threads()
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    return dict(in_force, jit_compile=False, threads=tf.config.threading.get_intra_op_parallelism_threads())
