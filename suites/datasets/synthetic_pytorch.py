"""Random arrays as PyTorch's tensors."""

import torch


def batch(images_NHWC, labels_N):
    """Return (images_NCHW, labels_N)."""
    images_NCHW = torch.from_numpy(images_NHWC).permute(0, 3, 1, 2).contiguous()
    return images_NCHW, torch.from_numpy(labels_N)
