"""How a network of the suite is trained in PyTorch, or the published one in its place: see ``bench.published_loop``."""

import torch
from torch import nn

from suites import modules
from suites.datasets.utterances import characters
from tests.contract.scripts.operations_of_step import Counter
from workers.trainer.base import job as jobs
from workers.trainer.frameworks.pytorch import optimizers


def built(job):
    """Return the suite's model."""
    torch.set_num_threads(jobs.threads())
    return modules.builder_of(job).build(job, job.processes[0], torch.device("cpu"))


def counted(step):
    """Return what ``step`` returns, and the operations of its convolutions, products and attentions; not those of
    recurrent layers, which are one operation that is not taken apart."""
    with Counter() as counter:
        found = step()
    return found, counter.total


def loop(name, model, job, theirs=None):
    """Return the loss of the first batch without dropout, and what trains so many steps and returns their losses; with
    the network of ``theirs``, where it is given."""
    network, updates = model.network, model.updates
    if theirs:
        network, model.network = theirs.make(name, network, job)
        updates = [one._replace(parameters=parameters(network, one.name)) for one in updates]
    parts = [optimized(update) for update in updates]
    whole = WHOLE.get(name, lambda batch: batch)
    batches = (whole(batch) for batch, _ in model.batches(0))

    def step():
        losses = []
        for update, optimizer, schedule in parts:
            for _ in range(update.times):
                batch = next(batches)
                optimizer.zero_grad()
                losses.append(update.loss(batch))
                losses[-1].backward()
                schedule()
                optimizer.step()
        return losses[0].item()

    first = without_dropout(network, lambda: model.loss(whole(next(model.batches(0))[0])).item())
    torch.manual_seed(job.plan.seed)  # what is dropped is the same on both sides, too
    return first, lambda steps: [step() for _ in range(steps)]


def _without_padding(batch):
    """Return utterances that are as long as the longest can be: what is packed passes padding by, and computes less."""
    spectrograms, mask, labels, _ = batch
    places = characters.places(mask.shape[1])
    return spectrograms, torch.ones_like(mask), labels, torch.full((len(mask),), places)


WHOLE = {"DeepSpeech2": _without_padding}


def parameters(network, name):
    """Return those of an update, which bears the name of a part where there are several."""
    return getattr(network, name, network).parameters()


def optimized(update):
    """Return (update, its optimizer, its schedule)."""
    optimizer = optimizers.make(update.optimizer, [one for one in update.parameters if one.requires_grad])
    return update, optimizer, optimizers.Schedule(update.optimizer, optimizer)


def without_dropout(network, told):
    """Return what ``told`` tells while ``network`` drops nothing, and leave it in training."""
    for part in network.modules():
        part.training = isinstance(part, (nn.BatchNorm1d, nn.BatchNorm2d))
    with torch.no_grad():
        found = told()
    network.train()
    return found
