"""The first step of a distributed training as somebody without tbd would write it: run by torchrun on each host.

``torchrun … -m bench.bare_gang JOB`` prints, on rank 0, the time (seconds since the epoch) when its first
step begins, and makes three steps.
"""

import os
import sys
import time

import torch
import torch.distributed

from suites.assemble.pytorch import build as suite
from workers.trainer.base import job as jobs


def main(path):
    job = jobs.read(path)
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    model = suite.build(job, job.processes[0], torch.device("cpu"))
    model.network = torch.nn.parallel.DistributedDataParallel(model.network)
    facts = model.updates[0].optimizer
    optimizer = torch.optim.SGD(
        model.network.parameters(), facts["learning_rate"], facts["momentum"], weight_decay=facts["weight_decay"]
    )
    batches = model.batches(rank)
    if rank == 0:
        print(time.time(), flush=True)
    for _ in range(3):
        batch, _ = next(batches)
        optimizer.zero_grad()
        model.loss(batch).backward()
        optimizer.step()
    torch.distributed.destroy_process_group()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
