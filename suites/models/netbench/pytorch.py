"""Messages by torch.distributed, over the process group of strategy ``ddp``: Gloo on CPU devices, NCCL on GPUs."""

from typing import Any, List, Sequence

import torch
from torch import distributed

from workers.trainer.base import job as jobs
from workers.trainer.base.failure import TrainerError
from workers.trainer.base.job import Job, Process


def open_exchange(job: Job, process: Process) -> "Exchange":
    """Return the exchange of this process, which has joined.

    Raises:
        TrainerError: ``unsupported``, the strategy does not exchange by torch.distributed.
    """
    if not distributed.is_initialized():
        raise TrainerError("unsupported", "netbench needs strategy ddp, not %s" % job.plan.strategy)
    torch.set_num_threads(jobs.threads())
    return Exchange(torch.device(process.device_kind), process.rank)


class Exchange(object):
    """See ``workers.trainer.loops.netbench``."""

    def __init__(self, device: Any, rank: int) -> None:
        self.library = distributed.get_backend()
        # NCCL's calls return at once: torch.distributed makes the stream wait, and not the host.
        self.queues = device.type == "cuda"
        self.device = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
        self._device = device
        self._random = torch.Generator(device=device)
        self._random.manual_seed(1 + rank)
        self._data = self._inbox = None

    def fill(self, count: int, head: Sequence[float]) -> None:
        self._data = self._inbox = None  # two sizes need not be held at once
        self._data = torch.rand(count, generator=self._random, device=self._device)
        self._data[: len(head)] = torch.tensor(head, device=self._device)
        self._inbox = torch.zeros_like(self._data)
        self.synchronize()

    def head(self, count: int) -> List[float]:
        return self._data[:count].tolist()

    def received(self, count: int) -> List[float]:
        return self._inbox[:count].tolist()

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
