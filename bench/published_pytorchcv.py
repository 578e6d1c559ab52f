"""Image classifiers of pytorchcv (https://pypi.org/project/pytorchcv) with the weights of the suite's."""

import importlib
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from workers.trainer.base.job import Job


def make(name: str, ours: nn.Module, job: Job) -> tuple[nn.Module, Callable[..., Any]]:
    """Return pytorchcv's network with the weights of ``ours``, whose layers come in the same order, and what computes
    by it what ``ours`` computes.

    Args:
        name: module and function of pytorchcv's models, with a point between.

    Raises:
        RuntimeError: it has other parameters.
    """
    module, function = name.split(".")
    found = getattr(importlib.import_module("pytorchcv.models." + module), function)()
    # Its last pooling is made for full size only; this one is the same mean of maps of any size.
    found.features.final_pool = nn.AdaptiveAvgPool2d(1)
    for part in found.modules():
        if isinstance(part, nn.Dropout):
            part.p = job.model.size["dropout"]
    theirs, mine = list(found.parameters()), list(ours.parameters())
    if [one.shape for one in theirs] != [one.shape for one in mine]:
        raise RuntimeError(f"pytorchcv's {name} has other parameters")
    with torch.no_grad():
        for own, given in zip(theirs, mine, strict=True):
            own.copy_(given)
    if module == "inceptionv3":  # the suite's also returns what its auxiliary head does, where there is one
        return found, lambda images: (found(images), None)
    return found, found
