"""A rank of PyTorch's ``ddp`` that is profiled again and again, each time until its gradients have come.

``python -m tests.support.profiled_exchanges RANK PORT ROUNDS rest|no-rest``, beside the other of two ranks and with the
library of ``freed_blocks.c`` preloaded. Prints how many blocks were written to after they had been freed, in both
ranks; ends when there are any.
"""

import ctypes
import os
import sys
from types import SimpleNamespace
from typing import Any

import torch
from torch import distributed

from workers.trainer.frameworks.pytorch import events
from workers.trainer.frameworks.pytorch.ddp import Strategy

# Rounds after which the ranks ask each other what they have found.
ASKED = 50


def main(rank: int, port: int, rounds: int, rests: bool) -> int:
    """Return the number of blocks."""
    strategy = Strategy()
    plan = SimpleNamespace(timeout_s=60.0, exchange_timeout_s=60.0, bucket_mib=None)
    job: Any = SimpleNamespace(rendezvous=("127.0.0.1", port), world_size=2, plan=plan)
    process: Any = SimpleNamespace(rank=rank)
    strategy.join(job, process, torch.device("cpu"))
    model, update = SimpleNamespace(network=torch.nn.Linear(8, 8)), SimpleNamespace(loss=None)
    strategy.losses(model, [update])  # type: ignore[list-item]
    batch = torch.ones(4, 8)

    def step() -> None:
        model.network(batch).sum().backward()

    def nothing() -> None:
        pass

    for done in range(1, rounds + 1):
        events.record(2, step, nothing, strategy.rest if rests else nothing, cuda=False)
        if done % ASKED == 0:
            found = torch.tensor(ctypes.CDLL(None).freed_blocks_written())
            distributed.all_reduce(found)
            if found:
                return int(found)
    return 0


if __name__ == "__main__":
    print(main(*map(int, sys.argv[1:4]), sys.argv[4] == "rest"), flush=True)
    os._exit(0)  # what a freed block did to others is no matter of these processes
