"""PyTorch: one process, one device; how several ranks exchange gradients is their strategy's matter, and in which
arithmetic they compute is ``precision``'s.

A model for it is ``build(job, process, device)`` in ``suites/models/<model>/pytorch.py``, which returns an object with
``network`` (a module of all that is trained), ``updates`` (``workers.trainer.base.updates``; losses are scalar tensors)
and ``batches(rank)`` (an endless iterator of (tensors, work)).
"""

import importlib
import itertools
from typing import Dict, Iterator, Optional, Sequence, Tuple

import torch

from suites import modules
from workers.trainer.base import job as jobs
from workers.trainer.base import optimizer as rules
from workers.trainer.base import updates
from workers.trainer.base.failure import TrainerError
from workers.trainer.base.job import Job, Process
from workers.trainer.base.signatures import Array, Arrays, Data, Watch, Work
from workers.trainer.frameworks.pytorch import (
    borders,
    checkpoint,
    events,
    kernels,
    layers,
    memory,
    optimizers,
    precision,
    shares,
)
from workers.trainer.frameworks.pytorch.step import Feed, Minimizer, Step
from workers.trainer.frameworks.pytorch.switches import Switches, untouched
from workers.trainer.frameworks.pytorch.trace import PART

# strategy -> the module with its class ``Strategy`` (see ``single``). Each is imported only where it is asked
# for: the interpreter of one strategy need not have the library of another.
STRATEGIES = {
    "single": "single",
    "ddp": "ddp",
    "fsdp": "fsdp",
    "horovod": "horovod",
}


class Adapter(object):
    """See ``workers.trainer.frameworks``."""

    abilities = ("activity", "checkpoint", "evaluate", "kernels", "layers", "memory")
    abilities_with_several = ("activity", "kernels", "layers", "memory")
    checkpointed = ("single", "ddp", "horovod")
    switches = ("channels_last", "compile", "cuda_graphs", "fused_optimizer")

    def __init__(self) -> None:
        self._device = None
        self._strategy = None
        self._seed = None
        self._repeats = True
        self._model = None
        self._switches = None
        self._step = None
        self._feed = None
        self._casting = None

    def versions(self) -> Data:
        libraries = {"numpy": importlib.import_module("numpy").__version__}
        if torch.version.cuda:
            libraries.update(cuda=torch.version.cuda, cudnn=str(torch.backends.cudnn.version()))
        if torch.backends.mkldnn.is_available():
            libraries["mkldnn"] = "enabled" if torch.backends.mkldnn.enabled else "disabled"
        return {"framework": "pytorch", "version": torch.__version__, "libraries": libraries}

    def join(self, job: Job, process: Process) -> int:
        self._device = _device(process)
        self._strategy = _strategy(job)
        return self._strategy.join(job, process, self._device)

    def build(self, job: Job, process: Process, watch: Watch) -> Data:
        self._seed = job.plan.seed
        self._repeats = modules.repeats(job)
        torch.manual_seed(self._seed)
        torch.set_num_threads(jobs.threads())
        mathematics = precision.apply(job.plan.precision, self._device)
        self._switches = Switches(job.plan.switches, self._device)
        self._model = modules.builder_of(job).build(job, process, self._device)
        self._model.network.train()
        self._switches.lay_out(self._model.network)
        self._strategy.spread(self._model.network)
        self._casting = precision.Casting(job.plan.precision, self._device)
        dtype = next(self._model.network.parameters()).dtype
        feed = Feed(self._device, dtype, self._switches.channels_last)
        minimizers = self._minimizers(updates.of_model(self._model, job), feed, job.plan.precision)
        # The mark is for the profile of memory.
        with events.mark(PART + "input"):
            feed.begin(watch(self._model.batches(process.rank)))
        self._feed = feed
        self._step = Step(self._model, feed, minimizers)
        self._prepare(feed)
        optimizers_made = [minimizer.optimizer for minimizer in minimizers]
        mathematics.update(self._switches.in_force(self._model.network, optimizers_made))
        parameters = sum(parameter.numel() for parameter in self._model.network.parameters())
        return {
            "parameters": parameters,
            "mathematics": mathematics,
            "device": _device_name(self._device),
            "exchange": self._strategy.exchange(),
        }

    def _prepare(self, feed):
        """Compile and record what is to be, by the first batches, which the first step then takes again."""
        if not self._switches.any_rehearsed:
            return
        batches = feed.batches
        taken = list(itertools.islice(batches, len(self._step.minimizers)))
        with untouched(self._model.network, self._device):
            feed.begin(iter(taken))
            self._step.prepare(self._switches)
            feed.begin(iter(taken))
            self._switches.rehearse(self._step.compute)
        for minimizer in self._step.minimizers:
            minimizer.clear()
        feed.begin(itertools.chain(taken, batches))

    def _minimizers(self, found, feed, arithmetic):
        named = list(self._model.network.named_parameters())
        minimizers = []
        for update, loss in zip(found, self._strategy.losses(self._model, found)):
            own = {id(parameter) for parameter in update.parameters}
            rule = rules.complete(update.optimizer)
            optimizer = self._strategy.optimizer(
                optimizers.make(rule, update.parameters, self._switches.fused_optimizer),
                [pair for pair in named if id(pair[1]) in own],
            )
            wanted = update.parameters if len(found) > 1 else None
            schedule = optimizers.Schedule(rule, optimizer)
            limit = rule["gradient_norm_limit"]
            casting = precision.Casting(arithmetic, self._device, limit, self._strategy.averaged)
            minimizers.append(Minimizer(feed, loss, wanted, optimizer, schedule, update.times, casting))
        return minimizers

    def step(self) -> Work:
        return self._step()

    def synchronize(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    def loss(self) -> float:
        return self._step.loss.item()

    def activity(self, steps: int) -> Data:
        """Profile ``steps`` steps: union of kernel intervals on a GPU, of operator intervals on a CPU device."""
        return kernels.activity(self._record(steps, self._step, device_only=True))

    def kernels(self, steps: int) -> Data:
        return kernels.table(self._record(steps, self._step, device_only=True), steps)

    def layers(self, steps: int) -> Data:
        network = self._strategy.bare(self._model.network)
        return layers.profile(self._record, steps, self._step, self._device, network, self._strategy)

    def memory_profile(self, job: Job, process: Process, watch: Watch) -> Data:
        def build():
            self.build(job, process, watch)
            return self._step

        return memory.profile(build, self._device, self._strategy.rest)

    def _record(self, steps, step, **options):
        rest = self._strategy.rest
        return events.record(steps, step, self.synchronize, rest, self._device.type == "cuda", **options)

    def memory(self) -> Optional[Data]:
        if self._device.type != "cuda":
            return None
        peak_bytes = torch.cuda.max_memory_allocated(self._device)
        reserved_bytes = torch.cuda.max_memory_reserved(self._device)
        method = "torch.cuda.max_memory_allocated"
        return {"peak_bytes": peak_bytes, "method": method, "reserved_bytes": reserved_bytes}

    def forget_peak(self) -> Optional[int]:
        if self._device.type != "cuda":
            return None
        peak_bytes = torch.cuda.max_memory_allocated(self._device)
        torch.cuda.reset_peak_memory_stats(self._device)
        return peak_bytes

    def weights(self, index: int) -> Iterator[Array]:
        for _, parameter in self._model.network.named_parameters():
            yield _array(shares.whole(parameter.detach()))

    def case(self) -> Dict[str, Array]:
        """In double precision: a case for all frameworks, see ``borders``."""
        return borders.case(self._model, self._step.take, self._seed)

    def gradients(self) -> Data:
        with borders.Margins() as margins:
            self._step.compute()
        # None of what is not trained.
        gradients = [parameter.grad for parameter in self._model.network.parameters()]
        found = [None if gradient is None else _array(gradient) for gradient in gradients]
        return {"loss": self.loss(), "gradients": self._model.described(found), "margins": margins.found}

    def state(self) -> Data:
        return {"weights": self._model.described(self.weights(0)), "statistics": self._model.running()}

    def outputs(self, batch: Sequence[Array]) -> Tuple[Array, ...]:
        return self._evaluated(batch)[0]

    def evaluate(self, batch: Sequence[Array]) -> Tuple[Tuple[Array, ...], float]:
        outputs, loss = self._evaluated(batch)
        return outputs, loss.item()

    def _evaluated(self, batch):
        network = self._strategy.bare(self._model.network)
        network.eval()
        try:
            with torch.no_grad():
                tensors = self._model.tensors(batch, self._device)
                outputs, loss = self._casting.forward(lambda given: self._model.evaluated(network, given), tensors)
        finally:
            network.train()
        return tuple(_array(one) for one in outputs), loss

    def checkpoint(self) -> Dict[str, Array]:
        network = self._strategy.bare(self._model.network)
        return checkpoint.taken(network, self._step.minimizers, self._device)

    def restore(self, arrays: Arrays, steps: int) -> None:
        for _ in range(steps * sum(minimizer.times for minimizer in self._step.minimizers) if self._repeats else 0):
            next(self._feed.batches)
        network = self._strategy.bare(self._model.network)
        checkpoint.given(network, self._step.minimizers, self._device, arrays)

    def close(self) -> None:
        self._model = self._step = None
        if self._strategy:
            self._strategy.close()

    def failure_of(self, error: BaseException) -> Optional[str]:
        if isinstance(error, torch.cuda.OutOfMemoryError) or "DefaultCPUAllocator: can't allocate memory" in str(error):
            return "out_of_memory"
        return self._strategy.failure_of(error) if self._strategy else None


def _strategy(job):
    module = STRATEGIES[job.plan.strategy]
    return importlib.import_module("workers.trainer.frameworks.pytorch." + module).Strategy()


def _device(process):
    """Return the torch device; the agent has hidden all GPUs but this process's own.

    Raises:
        TrainerError: ``unsupported``, this build or this host has no CUDA device to offer.
    """
    if process.device_kind == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        message = "PyTorch %s finds no CUDA device here: %s" % (torch.__version__, _why_none())
        raise TrainerError("unsupported", message)
    return torch.device("cuda", 0)


def _why_none():
    """Return what CUDA says when it is to begin, which ``is_available`` keeps to itself: error 802 is an NVSwitch board
    without its Fabric Manager, for one."""
    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        return str(error).strip().splitlines()[0]
    return "it begins, and shows none"


def _array(tensor):
    """Return a tensor as an array; numpy has no bfloat16, and single precision holds all of its numbers."""
    wide = tensor.float() if tensor.dtype == torch.bfloat16 else tensor
    return wide.cpu().contiguous().numpy()


def _device_name(device):
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
