"""How often a classifier's first choice is right, or one of its first five.

Dimensions: N samples of a batch, K classes.
"""

from typing import Any, Callable, Dict, Mapping, Sequence

from suites.quality import Examples

# As ImageNet's challenge counts them: Russakovsky et al., "ImageNet Large Scale Visual Recognition Challenge", 2015.
FIRST = 5


def sums(outputs: Sequence[Any], examples: Examples, compute: Callable[..., Any]) -> Dict[str, float]:
    """Return {"n", "top_1", "top_5"}: of ``n`` samples, those whose label has one of the highest logits_NK.

    Of equal logits none is preferred: a label counts as right only where fewer than k others are as high. A network
    that says nothing, or NaN, is not right by chance.
    """
    import numpy

    logits_NK, labels_N = outputs[0], examples.targets[0]
    own_N = logits_NK[numpy.arange(len(labels_N)), labels_N]
    others_N = (logits_NK >= own_N[:, None]).sum(axis=1) - 1
    known_N = numpy.isfinite(logits_NK).all(axis=1)
    found = {"n": float(len(labels_N))}
    for name, most in (("top_1", 1), ("top_5", FIRST)):
        found[name] = float(((others_N < most) & known_N).sum())
    return found


def value(sums: Mapping[str, float]) -> float:
    """Return the share of the samples whose first choice is right."""
    return sums["top_1"] / sums["n"]
