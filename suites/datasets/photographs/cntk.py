"""The photographs for CNTK: images in folders."""

from suites.datasets.image_folder.cntk import batches

__all__ = ["batches"]
