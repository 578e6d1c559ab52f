"""Trains a network of the suite, or pytorchcv's with the same weights, for some steps; prints its speed as JSON.

``python -m tests.benchmarks.published_loop ours|published MODULE.FUNCTION JOB``, those of pytorchcv's models, in
PyTorch's interpreter, with pytorchcv on its path. See ``tests.benchmarks.published``.
"""

import importlib
import json
import sys
import time

import torch
from torch import nn
from torch.nn import functional

from suites.assemble import pytorch as suite
from workers.trainer import job as jobs


def published(name, ours):
    """Return pytorchcv's network with the weights of ``ours``, whose layers come in the same order.

    Raises:
        RuntimeError: it has other parameters.
    """
    module, function = name.split(".")
    found = getattr(importlib.import_module("pytorchcv.models." + module), function)()
    # Its last pooling is made for full size only; this one is the same mean of maps of any size.
    found.features.final_pool = nn.AdaptiveAvgPool2d(1)
    for part in found.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0  # as in the job, which is made for a comparison
    theirs, mine = list(found.parameters()), list(ours.parameters())
    if [one.shape for one in theirs] != [one.shape for one in mine]:
        raise RuntimeError(f"pytorchcv's {name} has other parameters")
    with torch.no_grad():
        for own, given in zip(theirs, mine, strict=True):
            own.copy_(given)
    return found


def main(side, name, path):
    job = jobs.read(path)
    torch.set_num_threads(1)
    model = suite.build(job, job.processes[0], torch.device("cpu"))
    network, rule = model.network, model.updates[0].optimizer
    losses = model.loss
    if side == "published":
        network = published(name, network)
        losses = of_published(network)
    optimizer = torch.optim.SGD(
        network.parameters(), rule["learning_rate"], rule["momentum"], weight_decay=rule["weight_decay"]
    )
    batches = model.batches(0)

    def step():
        batch, _ = next(batches)
        optimizer.zero_grad()
        loss = losses(batch)
        loss.backward()
        optimizer.step()
        return loss.item()

    with open(path) as file:
        plan = json.load(file)["plan"]
    first, *_ = [step() for _ in range(plan["warm_up_steps"])]
    begun = time.monotonic()
    for _ in range(plan["steps"]):
        step()
    elapsed_s = time.monotonic() - begun
    images = plan["steps"] * job.plan.per_device_batch_size
    print(json.dumps({"loss": first, "images_per_s": images / elapsed_s}))


def of_published(network):
    """Return the function of a batch that is its mean loss, as the suite's ``loss`` is."""
    return lambda batch: functional.cross_entropy(network(batch[0]), batch[1])


if __name__ == "__main__":
    main(*sys.argv[1:])
