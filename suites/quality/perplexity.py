"""How well a language model foresees the next token: Jelinek et al., "Perplexity", 1977.

Dimensions: N sequences of a batch, T tokens, K tokens there are.
"""

import math
from typing import Any, Callable, Dict, Mapping, Sequence

from suites.quality import Examples


def sums(outputs: Sequence[Any], examples: Examples, compute: Callable[..., Any]) -> Dict[str, float]:
    """Return {"tokens", "nll"}: how many were foreseen, and the sum of their negative log likelihoods, in nats.

    The perplexity is exp(nll / tokens). Sequence by sequence: in double precision the logits of a batch are large.
    """
    import numpy

    nll = 0.0
    for logits_TK, following_T in zip(outputs[0], examples.targets[0]):
        logits_TK = logits_TK.astype(numpy.float64)
        highest_T = logits_TK.max(axis=1)
        total_T = highest_T + numpy.log(numpy.exp(logits_TK - highest_T[:, None]).sum(axis=1))
        nll += float((total_T - logits_TK[numpy.arange(len(following_T)), following_T]).sum())
    return {"tokens": float(examples.targets[0].size), "nll": nll}


def value(sums: Mapping[str, float]) -> float:
    """Return the perplexity; infinite where it is too large for a float."""
    mean = sums["nll"] / sums["tokens"]
    return math.exp(mean) if mean < 700 else math.inf
