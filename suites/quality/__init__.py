"""What a trained network is worth: the metrics of quality, in numpy, the same in every framework.

A metric is a module here, named in ``METRICS`` by what a model's ``[quality]`` calls it. Each has

``sums(outputs, examples, compute)``
    amounts that are added up over all batches of an evaluation, {name: number}: the quality is computed from their
    totals (``orchestrator.analysis.quality``), so that the log holds what was counted, and batches need not be equal

``outputs`` is what the network gave for ``examples``; ``compute(inputs)`` returns what it gives for others, for a
metric that lets a network write: ``Adapter.evaluate`` and ``Adapter.outputs``, outside of timed intervals.
"""

import importlib
from types import ModuleType
from typing import Any, NamedTuple, Optional, Tuple

# What ``[quality]`` of a model calls its metric -> the module here that counts for it.
METRICS = {
    "top_1_accuracy_ratio": "top_k",
    "accuracy_ratio": "top_k",
    "perplexity": "perplexity",
    "masked_perplexity": "masked",
    "bleu": "translations",
    "f1_ratio": "spans",
}


class Examples(NamedTuple):
    """A batch that is evaluated: arrays in the order of ``suites.inputs.Field``.

    ``references``: what a metric needs beside the arrays, such as the text that an answer is taken from.
    """

    inputs: Tuple[Any, ...]
    targets: Tuple[Any, ...]
    references: Optional[Any] = None


def module_of(metric: str) -> ModuleType:
    """Return the module of a metric.

    Raises:
        KeyError: there is no such metric.
    """
    return importlib.import_module("suites.quality." + METRICS[metric])
