"""PyTorch's strategy ``ddp``: a process per device, DistributedDataParallel over Gloo (CPU devices) or NCCL (GPUs).

Gradients are averaged over all ranks while the backward pass runs, in buckets. Buffers are not broadcast: the running
statistics of a batch normalisation are each rank's own and have no part in training, so that sending them from rank 0
before every step would cost time that no other framework's strategy spends (Goyal et al., "Accurate, Large Minibatch
SGD", 2017, section 4: statistics are not communicated). The parameters of rank 0 are broadcast when the network is
wrapped, before the first step.

What is wrapped calls the model and is waited for as a whole: the network, where one loss is minimised by all of it. Of
several updates each has a wrapper around its loss, with the parameters of that update only. Then a second backward pass
in the forward one, as for a gradient penalty, is inside of what is wrapped.
"""

import contextlib
import datetime
import os
import time
from typing import Any, Iterator, List, Optional, Sequence, Tuple

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from workers.trainer.base import job as jobs
from workers.trainer.base import waiting
from workers.trainer.base.failure import PEER_LOST, TrainerError
from workers.trainer.base.job import Job, Process
from workers.trainer.base.signatures import Data
from workers.trainer.base.updates import Update
from workers.trainer.frameworks.pytorch import single

BACKENDS = {"cpu": "gloo", "cuda": "nccl"}
# torch.nn.parallel.DistributedDataParallel, "bucket_cap_mb", where a plan names none: stated here so that it can be
# recorded.
BUCKET_MIB = 25
# What Gloo (transport/tcp) and NCCL say when the other end of a connection has gone; the type is that of any error.
GONE = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "remote process has terminated or shut down",
    "ncclRemoteError",
    "Socket closed",
)
# What PyTorch calls the threads on which Gloo's exchanges run, and what the kernel says of one that waits (proc(5)).
GLOO_THREAD = "pt_gloo_runloop"
ASLEEP = "S"
# Judgement: what wakes or holds a thread takes microseconds.
REST_S = 0.001
# Judgement: to leave a group whose ranks all live takes milliseconds.
LEAVE_S = 5.0
LATE = ("Timed out waiting", "Timeout waiting", "timed out", "wait timeout")


class Strategy(single.Strategy):
    """See ``single.Strategy``."""

    def __init__(self) -> None:
        self._backend = None
        self._device = None
        self._store = None
        self._bucket_mib = BUCKET_MIB

    def join(self, job: Job, process: Process, device: torch.device) -> int:
        self._backend, self._device = BACKENDS[device.type], device
        if device.type == "cuda":
            torch.cuda.set_device(device)
        self._bucket_mib = job.plan.bucket_mib or BUCKET_MIB
        rank, world_size = process.rank, job.world_size
        timeout_s = job.plan.timeout_s
        self._store = meet(job.rendezvous, rank, world_size, min(jobs.RENDEZVOUS_TIMEOUT_S, timeout_s))
        distributed.init_process_group(
            self._backend,
            store=distributed.PrefixStore("process_group", self._store),
            rank=rank,
            world_size=world_size,
            timeout=datetime.timedelta(seconds=min(job.plan.exchange_timeout_s, timeout_s)),
        )
        return distributed.get_world_size()

    def losses(self, model: Any, updates: Sequence[Update]) -> List[Any]:
        if len(updates) > 1:
            return [self._wrapped(_Loss(update)) for update in updates]
        model.network = self._wrapped(model.network)
        return super().losses(model, updates)

    def _wrapped(self, module):
        device_ids = [self._device] if self._device.type == "cuda" else None
        return DistributedDataParallel(
            module, device_ids=device_ids, broadcast_buffers=False, bucket_cap_mb=self._bucket_mib
        )

    def bare(self, network: nn.Module) -> nn.Module:
        return network.module if isinstance(network, DistributedDataParallel) else network

    def exchange(self) -> Data:
        return {
            "library": "torch.distributed",
            "backend": distributed.get_backend(),
            "bucket_bytes": self._bucket_mib * 1024 * 1024,
            "broadcast_buffers": False,
            "interface": os.environ.get(self._backend.upper() + "_SOCKET_IFNAME"),
        }

    def rest(self) -> None:
        """See ``single.Strategy``."""
        if self._backend == "gloo":
            rest_of_gloo()

    def failure_of(self, error: BaseException) -> Optional[str]:
        if not isinstance(error, RuntimeError):
            return None
        said = str(error)
        if any(words in said for words in GONE):
            return PEER_LOST
        return "timed_out" if any(words in said for words in LATE) else None

    def close(self) -> None:
        """Leave the group. Where another rank has gone that may wait for ever: it is waited for briefly."""
        if distributed.is_initialized():
            # What a broken group says of itself is no news: why it is left has been told.
            with contextlib.suppress(TrainerError, RuntimeError):
                waiting.within(LEAVE_S, "the group is not left", distributed.destroy_process_group)
        self._store = None


def rest_of_gloo() -> None:
    """Wait until Gloo's threads sleep, and still do a moment later.

    A backward pass ends when the averaged gradients are there; the thread that brought them then notes when it was
    done, in what a profiler has recorded. PyTorch (2.13) does not wait for that: a profiler that ends before has freed
    what is written to, and the process may be aborted by it much later, or never.
    """
    quiet = 0
    while quiet < 2:
        quiet = quiet + 1 if all(state == ASLEEP for state in gloo_threads()) else 0
        time.sleep(REST_S)


def gloo_threads() -> Iterator[str]:
    """Yield the state of each of this process's threads that carry out Gloo's exchanges, as proc(5) names it."""
    for thread in os.listdir("/proc/self/task"):
        try:
            with open("/proc/self/task/%s/stat" % thread) as file:
                name, _, rest = file.read().partition("(")[2].rpartition(")")
        except OSError:
            continue  # it has ended meanwhile
        if name == GLOO_THREAD:
            yield rest.split()[0]


class _Loss(torch.nn.Module):
    """The loss of an update, as a module of its parameters."""

    def __init__(self, update):
        super().__init__()
        self.own = torch.nn.ParameterList(update.parameters)
        self._loss = update.loss

    def forward(self, batch):
        return self._loss(batch)


def meet(address: Tuple[str, int], rank: int, world_size: int, timeout_s: float) -> Any:
    """Return the store through which all ranks have met at ``address``, (host, port) of rank 0.

    Raises:
        TrainerError: ``timed_out`` with the ranks that did not come; ``setup_failed``, rank 0 cannot listen.
    """
    try:
        store = distributed.TCPStore(
            address[0],
            address[1],
            world_size,
            is_master=rank == 0,
            timeout=datetime.timedelta(seconds=timeout_s),
            wait_for_workers=False,
        )
    except RuntimeError as error:
        kind, what = ("setup_failed", "listen") if rank == 0 else ("timed_out", "reach rank 0")
        raise TrainerError(kind, "cannot %s at %s:%s: %s" % (what, address[0], address[1], error), [0])
    store.set(_key(rank), "here")
    _wait_for_all(store, world_size, timeout_s)
    return store


def _wait_for_all(store, world_size, timeout_s):
    try:
        store.wait([_key(other) for other in range(world_size)], datetime.timedelta(seconds=timeout_s))
    except RuntimeError as error:
        missing = [other for other in range(world_size) if not store.check([_key(other)])]
        told = "rank %s did not come to the rendezvous in %g s: %s" % (", ".join(map(str, missing)), timeout_s, error)
        raise TrainerError("timed_out", told, missing or None)


def _key(rank):
    return "here/%d" % rank
