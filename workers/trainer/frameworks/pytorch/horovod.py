"""PyTorch's strategy ``horovod``: a process per device, Horovod's own optimiser around the model's.

Gradients are averaged over all ranks while the backward pass runs, fused as they come. Buffers are not sent after the
beginning, as with ``ddp``.
"""

import contextlib
from typing import Any, Callable, ContextManager, Iterator, List, Optional, Sequence

import horovod.torch
import torch

from workers.trainer.base.job import Job, Process
from workers.trainer.base.signatures import Data
from workers.trainer.base.updates import Update
from workers.trainer.frameworks import horovod_gloo
from workers.trainer.frameworks.pytorch import single


class Strategy(single.Strategy):
    """See ``single.Strategy``."""

    unseen_exchange = "Horovod exchanges gradients on a thread of its own, which PyTorch's profiler does not see"

    def __init__(self) -> None:
        self._kind = None

    def join(self, job: Job, process: Process, device: torch.device) -> int:
        self._kind = device.type
        if device.type == "cuda":
            torch.cuda.set_device(device)
        return horovod_gloo.join(horovod.torch, job, process)

    def losses(self, model: Any, updates: Sequence[Update]) -> List[Any]:
        horovod.torch.broadcast_parameters(model.network.state_dict(), root_rank=0)
        return super().losses(model, updates)

    def optimizer(self, optimizer: torch.optim.Optimizer, named: Any) -> torch.optim.Optimizer:
        return horovod.torch.DistributedOptimizer(optimizer, named, op=horovod.torch.Average)

    @contextlib.contextmanager
    def averaged(self, optimizer: Any) -> Iterator[None]:
        optimizer.synchronize()
        with optimizer.skip_synchronize():
            yield

    @contextlib.contextmanager
    def waits_marked(self, optimizers: Sequence[Any], mark: Callable[[], ContextManager[Any]]) -> Iterator[None]:
        def marked(wait):
            def synchronize():
                with mark():
                    wait()

            return synchronize

        # Horovod's optimiser calls its own method before it updates; one of the instance comes before that.
        for optimizer in optimizers:
            optimizer.synchronize = marked(optimizer.synchronize)
        try:
            yield
        finally:
            for optimizer in optimizers:
                del optimizer.synchronize

    def exchange(self) -> Data:
        return horovod_gloo.exchange(horovod.torch, self._kind)

    def failure_of(self, error: BaseException) -> Optional[str]:
        return horovod_gloo.failure_of(error)

    def close(self) -> None:
        horovod.torch.shutdown()
