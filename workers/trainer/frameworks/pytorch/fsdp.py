"""PyTorch's strategy ``fsdp``: as ``ddp``, but each rank keeps a share of weights, gradients and the optimiser's state.

Weights are gathered for a block's forward and backward pass and given back behind it; gradients are averaged and
scattered (Zhao et al., "PyTorch FSDP", VLDB 2023; Rajbhandari et al., "ZeRO", SC 2020, stage 3; with ``keep_gathered``
they stay between the two passes, which is stage 2). It is PyTorch's ``fully_shard``: parameters become DTensors, each
split along its first axis.

A block is what stands in a list or a sequence of the network and has modules of its own, such as a layer of GPT-2; all
that is in none is gathered for the whole of the forward pass.
"""

import os
from typing import Any, Iterator, List, Sequence

import torch
from torch import distributed, nn
from torch.distributed._composable import checkpoint
from torch.distributed.fsdp import FSDPModule, fully_shard

from workers.trainer.base.failure import TrainerError
from workers.trainer.base.job import Job, Process
from workers.trainer.base.signatures import Data
from workers.trainer.base.updates import Update
from workers.trainer.frameworks.pytorch import ddp

ACTIVATION_CHECKPOINTING, KEEP_GATHERED = "activation_checkpointing", "keep_gathered"


class Strategy(ddp.Strategy):
    """See ``single.Strategy``."""

    def __init__(self) -> None:
        super().__init__()
        self._recomputed = False
        self._kept = False
        self._blocks = 0

    def join(self, job: Job, process: Process, device: torch.device) -> int:
        self._recomputed = ACTIVATION_CHECKPOINTING in job.plan.switches
        self._kept = KEEP_GATHERED in job.plan.switches
        return super().join(job, process, device)

    def spread(self, network: nn.Module) -> None:
        for tensor in (*network.parameters(), *network.buffers()):
            distributed.broadcast(tensor.detach(), 0)
        blocks = list(blocks_of(network))
        self._blocks = len(blocks)
        for block in blocks:
            if self._recomputed:
                checkpoint(block)
            fully_shard(block, reshard_after_forward=not self._kept)
        fully_shard(network, reshard_after_forward=not self._kept)
        for module in network.modules():
            if isinstance(module, FSDPModule):
                # Gloo has no average; where PyTorch asks it for one it gets the sum (pytorch/pytorch 162338).
                module.set_force_sum_reduction_for_comms(self._backend == "gloo")

    def losses(self, model: Any, updates: Sequence[Update]) -> List[Any]:
        """Raises TrainerError: ``unsupported``, several updates share a network: which weights of it each of them
        gathers, nobody has tried."""
        if len(updates) > 1:
            raise TrainerError("unsupported", "fsdp trains models of one update, and this one has %d" % len(updates))
        return [update.loss for update in updates]

    def exchange(self) -> Data:
        return {
            "library": "torch.distributed.fsdp.fully_shard",
            "backend": distributed.get_backend(),
            "blocks": self._blocks,
            "reshard_after_forward": not self._kept,
            "activation_checkpointing": self._recomputed,
            "interface": os.environ.get(self._backend.upper() + "_SOCKET_IFNAME"),
        }


def blocks_of(network: nn.Module) -> Iterator[nn.Module]:
    """Yield the blocks of ``network``, outermost ones only, in the order of its modules."""
    for module in network.children():
        if isinstance(module, (nn.ModuleList, nn.Sequential)):
            for part in module:
                if next(part.children(), None) is not None and next(part.parameters(), None) is not None:
                    yield part
        else:
            for found in blocks_of(module):
                yield found
