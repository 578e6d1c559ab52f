"""Tensors of which each rank has a share, such as those of ``fsdp``; any other tensor is what it is."""

import torch
from torch import distributed


def local(tensor: torch.Tensor) -> torch.Tensor:
    """Return this rank's share."""
    return tensor.to_local() if _is_shared(tensor) else tensor


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """Return all of it, gathered from all ranks: each of them has to ask."""
    return tensor.full_tensor() if _is_shared(tensor) else tensor


def _is_shared(tensor):
    # A build of PyTorch for one process has no such module.
    return distributed.is_available() and isinstance(tensor, distributed.tensor.DTensor)
