"""The photographs for MXNet: images in folders."""

from suites.datasets.image_folder.mxnet import batches

__all__ = ["batches"]
