"""Datasets in ImageNet's folder layout: ``<root>/<split>/<class>/*.JPEG``. Loaders for them; itself no dataset."""
