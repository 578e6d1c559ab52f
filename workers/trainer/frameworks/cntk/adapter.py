"""CNTK: one process, one device, in fp32; several processes meet by MPI, which mpirun has started them for.

A model for it is ``build(job, process)`` in ``suites/models/<model>/cntk.py``, which returns an object with
``parameters`` (all trainable ones, in a fixed order), ``arguments`` (the input variables of a batch), ``updates`` (see
``workers.trainer.base.updates``: a loss is the node with that of each sample) and ``batches(rank)`` (an endless
iterator of (values of the arguments, work)).
"""

import ctypes
import importlib
import os
import re
import warnings
from typing import Dict, Iterator, Optional, Sequence, Tuple

from suites import modules
from workers.trainer.base.job import Job, Process
from workers.trainer.base.signatures import Array, Arrays, Data, Watch, Work

# CNTK warns of every Linux but Ubuntu 16.04, and of a GPU that may be missing.
warnings.filterwarnings("ignore", module="cntk")

import cntk  # noqa: E402

from workers.trainer import profiling  # noqa: E402
from workers.trainer.base import job as jobs  # noqa: E402
from workers.trainer.base import optimizer as rules  # noqa: E402
from workers.trainer.base import updates, waiting  # noqa: E402
from workers.trainer.base.failure import TrainerError  # noqa: E402
from workers.trainer.base.work import total  # noqa: E402
from workers.trainer.frameworks import allocation_profile  # noqa: E402
from workers.trainer.frameworks.cntk import (  # noqa: E402
    checkpoint,
    graph,
    memory,
    optimizers,
    profiler,
    timing,
    trace,
)
from workers.trainer.frameworks.cntk.minimizer import Minimizer  # noqa: E402

# Judgement: how long the ranks may take to part.
PARTING_TIMEOUT_S = 30.0

BLOCK_MOMENTUM = "mpi-block-momentum"


class Adapter(object):
    """See ``workers.trainer.frameworks``."""

    abilities = ("activity", "checkpoint", "evaluate", "kernels", "layers", "memory")
    # Layers are told apart in one criterion; of the memory CNTK plans that of each criterion by itself.
    abilities_with_several = ("activity", "kernels")
    checkpointed = ("single", "mpi")
    not_checkpointed = {
        BLOCK_MOMENTUM: "CNTK tells its blocks' momentum to all ranks at once, and changes the weights by it"
    }
    switches = ()

    def __init__(self) -> None:
        self._device = None
        self._mathematics = None
        self._model = None
        self._minimizers = []
        # Each as often as a step carries it out.
        self._order = []
        self._batches = None
        self._communicator = None
        self._block_steps = None
        self._done = False
        self._folder = None

    def versions(self) -> Data:
        libraries = {"numpy": importlib.import_module("numpy").__version__, "openmpi": _openmpi_version()}
        return {"framework": "cntk", "version": cntk.__version__, "libraries": libraries}

    def join(self, job: Job, process: Process) -> int:
        """Meet the other ranks; the process is ended by an alarm if some do not come.

        Raises:
            TrainerError: ``setup_failed``, mpirun has started others than planned; ``unsupported``, the strategy cannot
                make several updates.
        """
        if job.plan.strategy == BLOCK_MOMENTUM:
            updates.refuse_several(job, "a block of %s is counted in the samples of one trainer" % BLOCK_MOMENTUM)
        if job.plan.strategy == "single":
            return job.world_size
        # MPI waits for the other ranks with Python's lock held.
        with waiting.alarm(min(jobs.RENDEZVOUS_TIMEOUT_S, job.plan.timeout_s)):
            self._communicator = cntk.distributed.mpi_communicator()
        found = (cntk.distributed.Communicator.rank(), cntk.distributed.Communicator.num_workers())
        if found != (process.rank, job.world_size):
            planned = (process.rank, job.world_size)
            raise TrainerError("setup_failed", "MPI calls this rank %d of %d, the plan %d of %d" % (found + planned))
        return found[1]

    def build(self, job: Job, process: Process, watch: Watch) -> Data:
        mathematics = self._prepare(job, process)
        self._folder = job.folder
        self._model = modules.builder_of(job).build(job, process)
        self._minimizers = [self._minimizer(update, job) for update in updates.of_model(self._model, job)]
        self._order = [one for one in self._minimizers for _ in range(one.times)]
        self._batches = watch(self._model.batches(process.rank))
        parameters = sum(int(parameter.value.size) for parameter in self._model.parameters)
        return {
            "parameters": parameters,
            "mathematics": mathematics,
            "device": self._device_name(),
            "exchange": self._exchange(),
        }

    def _prepare(self, job, process):
        """Choose threads and device, before CNTK computes anything; return what is in force."""
        if self._device is None:
            self._mathematics = _mathematics(job.plan.precision)
            self._device = _device(process)
            _check_profiles(job, self._device)
            cntk.try_set_default_device(self._device)
            if job.plan.strategy == BLOCK_MOMENTUM:
                self._block_steps = job.strategy.step_multiple
        return self._mathematics

    def _minimizer(self, update, job):
        """With block momentum each rank learns alone, from its own batch: at the rate of that batch."""
        rule = rules.complete(update.optimizer)
        if job.plan.strategy == BLOCK_MOMENTUM:
            rule["learning_rate"] /= job.world_size
        learner = optimizers.make(rule, update.parameters)
        return Minimizer(update, rule, learner, self._distributed(learner, job), self._model.arguments)

    def _distributed(self, learner, job):
        if self._communicator is None:
            return learner
        if self._block_steps is None:
            return cntk.distributed.data_parallel_distributed_learner(learner)
        # CNTK counts a block in samples of all ranks. The block's momentum is its default of 1 - 1 / ranks, by which
        # a sample counts as much as it does for a single rank.
        images = job.plan.per_device_batch_size * job.world_size
        return cntk.distributed.block_momentum_distributed_learner(learner, images * self._block_steps)

    def _exchange(self):
        if self._communicator is None:
            return {}
        return {
            "library": "cntk.distributed",
            "backend": "mpi",
            "quantization_bits": 32,
            "block_steps": self._block_steps,
            "interface": os.environ.get("OMPI_MCA_btl_tcp_if_include"),
        }

    def step(self) -> Work:
        works = []
        for minimizer in self._order:
            batch, work = self._take()
            minimizer.train(batch)
            works.append(work)
        return works[0] if len(works) == 1 else total(works)

    def _take(self):
        return next(self._batches)

    def synchronize(self) -> None:
        """Fetch the last loss and a weight: on a GPU, all that was asked for before is done then."""
        if self._device.type() != cntk.device.DeviceKind.CPU:
            for minimizer in self._minimizers:
                minimizer.loss()
                minimizer.parameters[-1].asarray()

    def loss(self) -> float:
        return self._minimizers[0].loss()

    def activity(self, steps: int) -> Data:
        """The sum of the times of all nodes of the network, which CNTK computes one after another."""
        trainers = [minimizer.trainer for minimizer in self._minimizers]
        return timing.activity(trainers, self.step, self.synchronize, steps)

    def kernels(self, steps: int) -> Data:
        recording = self._recorded(steps)
        return trace.kernels(recording.spans, steps, recording.elapsed_s, recording.ahead_s)

    def layers(self, steps: int) -> Data:
        recording = self._recorded(steps)
        table = profiler.table(self._minimizers[0].criterion)
        found = trace.layers(recording.spans, steps, recording.elapsed_s, recording.input_s, table, self._exchanged())
        return dict(found, backward_t=recording.ahead_s + found["backward_t"])

    def _exchanged(self):
        """Return (name, bytes) of what the ranks exchange; None where there is one rank."""
        if self._communicator is None or cntk.distributed.Communicator.num_workers() == 1:
            return None
        size = sum(4 * int(parameter.value.size) for parameter in self._model.parameters)
        return ("changes of a block" if self._block_steps else "all gradients", size)

    def _recorded(self, steps):
        trains = [minimizer.train for minimizer in self._order]
        return profiler.Recording(lambda: self._take()[0], trains, self.synchronize, steps)

    def memory_profile(self, job: Job, process: Process, watch: Watch) -> Data:
        def build():
            self.build(job, process, watch)
            return self._model.parameters

        self._prepare(job, process)
        _load(job)
        steps = profiling.whole_steps(job, allocation_profile.STEPS)
        exchange = graph.Exchange(job.world_size, self._block_steps)
        batch = job.plan.per_device_batch_size
        found = memory.profile(build, self.step, lambda: self._take()[0], steps, batch, exchange)
        self._done = True
        return found

    def memory(self) -> Optional[Data]:
        """None: CNTK does not say what it allocates."""

    def forget_peak(self) -> Optional[int]:
        """None, as ``memory``."""

    def weights(self, index: int) -> Iterator[Array]:
        # Asked for when all training is done.
        self._done = True
        for parameter in self._model.parameters:
            yield parameter.value

    def gradients(self) -> Data:
        loss, found = None, {parameter.uid: 0.0 for parameter in self._model.parameters}
        for minimizer in self._minimizers:
            one, gradients = minimizer.compute(self._take()[0])
            loss = one if loss is None else loss
            for parameter, gradient in zip(minimizer.parameters, gradients):
                found[parameter.uid] = found[parameter.uid] + gradient
        arrays = [found[parameter.uid] for parameter in self._model.parameters]
        return {"loss": loss, "gradients": self._model.network.described(arrays), "margins": {}}

    def state(self) -> Data:
        network = self._model.network
        return {"weights": network.described(self.weights(0)), "statistics": network.running()}

    def outputs(self, batch: Sequence[Array]) -> Tuple[Array, ...]:
        return self._evaluated(batch)[0]

    def evaluate(self, batch: Sequence[Array]) -> Tuple[Tuple[Array, ...], float]:
        outputs, loss = self._evaluated(batch)
        return outputs, float(loss.mean())

    def _evaluated(self, batch):
        outputs, loss = self._model.evaluated(batch)
        return tuple(outputs), loss

    def checkpoint(self) -> Dict[str, Array]:
        return checkpoint.taken(self._model.network, self._minimizers, self._communicator is None, self._folder)

    def restore(self, arrays: Arrays, steps: int) -> None:
        for _ in range(steps * len(self._order)):
            self._take()
        alone = self._communicator is None
        checkpoint.given(self._model.network, self._minimizers, alone, self._folder, arrays)

    def reseed(self, steps: int) -> None:
        """On one device a checkpoint has the generators."""
        for one in self._minimizers if self._communicator is not None else ():
            one.reseed(steps)

    def close(self) -> None:
        self._batches = self._model = None
        self._minimizers = self._order = []
        # After a failure there may be nobody left to part from: mpirun ends them all.
        if self._communicator is not None and self._done:
            with waiting.alarm(PARTING_TIMEOUT_S):
                cntk.distributed.Communicator.finalize()

    def failure_of(self, error: BaseException) -> Optional[str]:
        short = "bad_alloc" in str(error) or "out of memory" in str(error).lower()
        return "out_of_memory" if isinstance(error, (RuntimeError, ValueError)) and short else None

    def _device_name(self):
        if self._device.type() == cntk.device.DeviceKind.CPU:
            return "cpu"
        return cntk.device.get_gpu_properties(self._device).name


def _device(process):
    """Return the device; the agent has hidden all GPUs but this process's own.

    Raises:
        TrainerError: ``unsupported``, this build or this host has no GPU to offer.
    """
    if process.device_kind == "cpu":
        return cntk.cpu()
    if not any(device.type() == cntk.device.DeviceKind.GPU for device in cntk.device.all_devices()):
        raise TrainerError("unsupported", "CNTK %s finds no GPU here" % cntk.__version__)
    return cntk.gpu(0)


def _check_profiles(job, device):
    """Refuse what would tell a GPU's times by the host's.

    Raises:
        TrainerError: ``unsupported``, CNTK's profiler knows nothing of kernels, and its plan nothing of cuDNN.
    """
    if job.plan.profile and device.type() != cntk.device.DeviceKind.CPU:
        raise TrainerError("unsupported", "CNTK's profiles are those of the host: none is made on a GPU")


def _mathematics(precision):
    """Set the threads, before CNTK computes anything; return what is in force.

    Raises:
        TrainerError: ``unsupported``, a precision that this adapter does not do.
    """
    if precision != "fp32":
        raise TrainerError("unsupported", "this adapter computes in fp32, not in %s" % precision)
    cntk.cntk_py.set_max_num_cputhreads(jobs.threads())
    # CUDA 10, the newest that CNTK is built with, has no TF32.
    return {"precision": precision, "tf32": False, "threads": cntk.cntk_py.get_max_num_cputhreads()}


def _load(job):
    """Import what the build of a model imports: what Python takes for modules is no memory of the model."""
    modules.builder_of(job)
    if job.model.input:
        modules.part_of(job, job.plan.framework)
        modules.input_of(job)


def _openmpi_version():
    """Return what the MPI library says of itself, such as ``4.1.4``; it may be asked before MPI begins."""
    text, length = ctypes.create_string_buffer(8192), ctypes.c_int()
    ctypes.CDLL("libmpi.so.12").MPI_Get_library_version(text, ctypes.byref(length))
    found = re.search(r"v(\d[\w.]*)", text.value.decode("ascii", "replace"))
    return found.group(1) if found else text.value.decode("ascii", "replace")[:80]
