"""Trains a network of the suite, or the published one with the same weights, for some steps; prints its speed as JSON.

``python -m bench.published_loop ours|published KIT NAME JOB``, in PyTorch's interpreter, with the published
package on its path: ``bench.published_KIT`` makes its network NAME. See ``bench.published``.
"""

import importlib
import json
import sys
import time

import torch
from torch import nn

from suites.assemble.pytorch import build as suite
from workers.trainer.base import job as jobs
from workers.trainer.frameworks.pytorch import optimizers


def main(side, kit, name, path):
    job = jobs.read(path)
    torch.set_num_threads(jobs.threads())
    model = suite.build(job, job.processes[0], torch.device("cpu"))
    network, rule = model.network, model.updates[0].optimizer
    if side == "published":
        # The suite's loss is computed by it from now on.
        network, model.network = importlib.import_module("bench.published_" + kit).make(name, network, job)
    optimizer = optimizers.make(rule, [one for one in network.parameters() if one.requires_grad])
    schedule = optimizers.Schedule(rule, optimizer)
    batches = model.batches(0)

    def step():
        batch, _ = next(batches)
        optimizer.zero_grad()
        loss = model.loss(batch)
        loss.backward()
        schedule()
        optimizer.step()
        return loss.item()

    with open(path) as file:
        plan = json.load(file)["plan"]
    told = {"loss": without_dropout(network, lambda: model.loss(next(model.batches(0))[0]).item())}
    torch.manual_seed(job.plan.seed)  # what is dropped is the same on both sides, too
    told["dropped_loss"], *_ = [step() for _ in range(plan["warm_up_steps"])]
    begun = time.monotonic()
    for _ in range(plan["steps"]):
        step()
    elapsed_s = time.monotonic() - begun
    samples = plan["steps"] * job.plan.per_device_batch_size
    print(json.dumps(dict(told, samples_per_s=samples / elapsed_s)))


def without_dropout(network, told):
    """Return what ``told`` tells while ``network`` drops nothing, and leave it in training."""
    for part in network.modules():
        part.training = isinstance(part, (nn.BatchNorm1d, nn.BatchNorm2d))
    with torch.no_grad():
        found = told()
    network.train()
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
