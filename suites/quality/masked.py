"""How well a network finds tokens that are hidden: perplexity as Devlin et al., "BERT", 2019, table 6, report it.

Dimensions: N sequences of a batch, P hidden tokens of each at most, K tokens there are.
"""

from typing import Any, Callable, Dict, Mapping, Sequence

from suites.quality import Examples, perplexity


def sums(outputs: Sequence[Any], examples: Examples, compute: Callable[..., Any]) -> Dict[str, float]:
    """Return {"tokens", "nll", "right"}: how many were hidden, the sum of their negative log likelihoods, in nats, and
    of how many the right one was the likeliest.

    Places that hide nothing have no share of the loss, and do not count.
    """
    originals_NP, shares_NP = examples.targets[:2]
    hidden_NP = shares_NP > 0
    # All hidden tokens of the batch, as if they were one sequence.
    logits_1HK, originals_1H = outputs[0][hidden_NP][None], originals_NP[hidden_NP][None]
    found = perplexity.sums((logits_1HK,), Examples((), (originals_1H,)), compute)
    return dict(found, right=float((logits_1HK.argmax(axis=2) == originals_1H).sum()))


def value(sums: Mapping[str, float]) -> float:
    """Return the perplexity of the hidden tokens."""
    return perplexity.value(sums)
