"""The photographs for TensorFlow: images in folders."""

from suites.datasets.image_folder.tensorflow import batches

__all__ = ["batches"]
