"""Messages by torch.distributed, over the process group of strategy ``ddp``: Gloo on CPU devices, NCCL on GPUs; and
Horovod's own all-reduce, on CPU devices.
"""

import importlib
from typing import Any, List, Sequence

import torch
from torch import distributed

from workers.trainer.base import job as jobs
from workers.trainer.base.failure import TrainerError
from workers.trainer.base.job import Job, Process
from workers.trainer.base.signatures import Adapter


def open_exchange(job: Job, process: Process, adapter: Adapter) -> "Exchange":
    """Return the exchange of this process, which has joined.

    Raises:
        TrainerError: ``unsupported``, the strategy exchanges neither by torch.distributed nor by Horovod; or by
            Horovod, on GPUs.
    """
    torch.set_num_threads(jobs.threads())
    device = torch.device(process.device_kind)
    if job.plan.strategy == "horovod" and device.type == "cpu":
        return Horovod(device, process.rank)
    if not distributed.is_initialized():
        told = "netbench needs strategy ddp, or horovod on cpu, not %s on %s"
        raise TrainerError("unsupported", told % (job.plan.strategy, device.type))
    return Exchange(device, process.rank)


class Exchange(object):
    """See ``workers.trainer.loops.netbench``."""

    operations = ("point_to_point", "all_reduce")
    mean = False

    def __init__(self, device: Any, rank: int) -> None:
        self.library = self._library()
        # NCCL's calls return at once: torch.distributed makes the stream wait, and not the host.
        self.queues = device.type == "cuda"
        self.device = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
        self._device = device
        self._random = torch.Generator(device=device)
        self._random.manual_seed(1 + rank)
        self._data = self._inbox = None

    def _library(self):
        return distributed.get_backend()

    def fill(self, count: int, heads: Sequence[Sequence[float]]) -> None:
        (head,) = heads
        self._data = self._inbox = None  # two sizes need not be held at once
        self._data = torch.rand(count, generator=self._random, device=self._device)
        self._data[: len(head)] = torch.tensor(head, device=self._device)
        self._inbox = torch.zeros_like(self._data)
        self.synchronize()

    def heads(self, count: int) -> List[List[float]]:
        return [self._data[:count].tolist()]

    def received(self, count: int) -> List[List[float]]:
        return [self._inbox[:count].tolist()]

    def scale(self, factor: float) -> None:
        self._data.mul_(factor)
        self.synchronize()

    def all_reduce(self) -> None:
        distributed.all_reduce(self._data)

    def send(self, rank: int) -> None:
        distributed.send(self._data, rank)

    def receive(self, rank: int) -> None:
        distributed.recv(self._inbox, rank)

    def synchronize(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    def close(self) -> None:
        self._data = self._inbox = None


class Horovod(Exchange):
    """Horovod's own all-reduce; messages between two ranks it has not."""

    operations = ("all_reduce",)

    def __init__(self, device: Any, rank: int) -> None:
        super().__init__(device, rank)
        self._horovod = importlib.import_module("horovod.torch")

    def _library(self):
        return "horovod-pytorch"

    def all_reduce(self) -> None:
        self._horovod.allreduce_(self._data, op=self._horovod.Sum, name="netbench of %d" % self._data.numel())
