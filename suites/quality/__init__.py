"""What a trained network is worth: the metrics of quality, in numpy, the same in every framework.

A metric is a module here, named in ``METRICS`` by what a model's ``[quality]`` calls it. Each has

``sums(outputs, examples, compute)``
    amounts that are added up over all batches of an evaluation, {name: number}: the quality is computed from their
    totals, so that the log holds what was counted, and batches need not be equal
``value(sums)``
    the quality, from the totals

``outputs`` is what the network gave for ``examples``; ``compute(inputs)`` returns what it gives for others, for a
metric that lets a network write: ``Adapter.evaluate`` and ``Adapter.outputs``, outside of timed intervals.
"""

import importlib
import math
from types import ModuleType
from typing import Any, Mapping, NamedTuple, Optional, Tuple

from suites.quality import bleu

# What ``[quality]`` of a model calls its metric -> the module here that counts for it.
METRICS = {
    "top_1_accuracy_ratio": "top_k",
    "accuracy_ratio": "top_k",
    "perplexity": "perplexity",
    "masked_perplexity": "masked",
    "bleu": "translations",
    "f1_ratio": "spans",
    "word_error_ratio": "word_errors",
    "sliced_wasserstein": "sliced_wasserstein",
    "game_score": "game_scores",
    "mean_average_precision_ratio": "mean_average_precision",
    "mask_average_precision_ratio": "coco_precision",
}

# What a quality can be: a target lies between, or at the upper end where higher is better.
BOUNDS = {
    "top_1_accuracy_ratio": (0.0, 1.0),
    "accuracy_ratio": (0.0, 1.0),
    "f1_ratio": (0.0, 1.0),
    "bleu": (0.0, 100.0),
    "perplexity": (1.0, math.inf),
    "masked_perplexity": (1.0, math.inf),
    # More words may be wrong than there are.
    "word_error_ratio": (0.0, math.inf),
    "sliced_wasserstein": (0.0, math.inf),
    "game_score": (-math.inf, math.inf),
    "mean_average_precision_ratio": (0.0, 1.0),
    "mask_average_precision_ratio": (0.0, 1.0),
}

# What the name of a metric leaves open, for the method of what is measured by it.
DETAILS = {
    "f1_ratio": "SQuAD 1.1's",
    "bleu": "of greedy translations, sacrebleu's " + bleu.SIGNATURE,
    "perplexity": "per token of the dataset's vocabulary",
    "masked_perplexity": "per hidden token of the dataset's vocabulary",
    "word_error_ratio": "of the likeliest symbols, without a language model",
    "sliced_wasserstein": "of pixels from -1 to 1, along 128 fixed directions",
    "game_score": "mean of 20 whole games, actions drawn by the policy",
    "mean_average_precision_ratio": "VOC 2007's, of eleven points, at half of the area",
    "mask_average_precision_ratio": "COCO's, of masks, at 0.5 to 0.95 of the area",
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


def value(metric: str, sums: Mapping[str, float]) -> float:
    """Return the quality that the totals of an evaluation tell.

    Raises:
        KeyError: there is no such metric.
    """
    return float(module_of(metric).value(sums))


def reaches(quality: float, target: float, better: str) -> bool:
    """Return whether ``quality`` is at ``target`` or beyond, where ``better`` is "higher" or "lower"."""
    if not math.isfinite(quality):
        return False
    return quality >= target if better == "higher" else quality <= target
