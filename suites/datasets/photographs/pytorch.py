"""The photographs for PyTorch: images in folders."""

from suites.datasets.image_folder.pytorch import batches

__all__ = ["batches"]
