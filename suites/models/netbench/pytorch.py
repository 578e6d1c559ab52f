"""Messages by torch.distributed, over the process group of strategy ``ddp``: Gloo on CPU devices, NCCL on GPUs."""

import torch
from torch import distributed

from workers.trainer import job as jobs
from workers.trainer.failure import TrainerError


def open_exchange(job, process):
    """Return the exchange of this process, which has joined.

    Raises:
        TrainerError: ``unsupported``, the strategy does not exchange by torch.distributed.
    """
    if not distributed.is_initialized():
        raise TrainerError("unsupported", "netbench needs strategy ddp, not %s" % job["plan"]["strategy"])
    torch.set_num_threads(jobs.threads())
    return Exchange(torch.device(jobs.device_kind(process)), jobs.rank_of(process))


class Exchange(object):
    """See ``workers.trainer.transfers``."""

    def __init__(self, device, rank):
        self.library = distributed.get_backend()
        self.device = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
        self._device = device
        self._random = torch.Generator(device=device)
        self._random.manual_seed(1 + rank)
        self._data = self._inbox = None

    def fill(self, count, head):
        self._data = self._inbox = None  # two sizes need not be held at once
        self._data = torch.rand(count, generator=self._random, device=self._device)
        self._data[: len(head)] = torch.tensor(head, device=self._device)
        self._inbox = torch.zeros_like(self._data)
        self.synchronize()

    def head(self, count):
        return self._data[:count].tolist()

    def received(self, count):
        return self._inbox[:count].tolist()

    def scale(self, factor):
        self._data.mul_(factor)
        self.synchronize()

    def all_reduce(self):
        distributed.all_reduce(self._data)

    def send(self, rank):
        distributed.send(self._data, rank)

    def receive(self, rank):
        distributed.recv(self._inbox, rank)

    def synchronize(self):
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    def close(self):
        self._data = self._inbox = None
