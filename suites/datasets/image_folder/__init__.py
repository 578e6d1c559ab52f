"""Loaders of labelled images, for each framework; itself no dataset.

They are in ImageNet's folder layout, ``<root>/<split>/<class>/*.JPEG``, or in files of records that
``<root>/<split>.index`` lists (``suites.datasets.records``).
"""
