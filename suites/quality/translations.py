"""Translations that a network makes, one token after the other, always the likeliest.

Vaswani et al., "Attention Is All You Need", 2017, section 6.1, search with four beams and average the weights of
several checkpoints; both are left out here, which costs some BLEU and lets every framework do the same.

Dimensions: N sentences of a batch, S tokens of a source, T of a target, K tokens that there are.
"""

from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Sequence

from suites.datasets.numbered import BEGIN, END, PADDING
from suites.datasets.pieces import Pieces
from suites.quality import Examples, bleu
from workers.trainer.base.signatures import Array

# A translation has so many tokens for each of its source's, and so many more, at most; and no more than the network has
# places for. Vaswani et al. allow 50 more; of the sentences made here none is longer than this.
MOST_RATIO, MOST_MORE = 1.5, 10

# Judgement: arrays are as wide as a quarter, a half or all of the places that a network has. More widths would save
# little more, and frameworks that compile a network for a shape would do so more often.
PARTS = (4, 2, 1)

# (sources_NS, mask_NS, targets_NT) -> logits_NTK: for each place, of what comes after it.
Logits = Callable[[Array, Array, Array], Array]


class Wanted(NamedTuple):
    """What a batch is judged by: the reference of each sentence, and the vocabulary that its translation is in."""

    references: Sequence[str]
    pieces: Pieces


def sums(outputs: Sequence[Any], examples: Examples, compute: Callable[..., Any]) -> Dict[str, float]:
    """Return the sums of ``suites.quality.bleu`` of the sentences of a batch, as the network translates them.

    ``examples.references`` is a ``Wanted``. What the network gave with the right translations before its eyes,
    ``outputs``, does not count.
    """
    sources_NS, mask_NS, targets_NT = examples.inputs
    wanted = examples.references  # type: Any
    found = greedy(lambda *inputs: compute(inputs)[0], sources_NS, mask_NS, targets_NT.shape[1])
    return bleu.sums((wanted.pieces.text(tokens), text) for tokens, text in zip(found, wanted.references))


def value(sums: Mapping[str, float]) -> float:
    """Return BLEU, 0 to 100."""
    return bleu.value(sums)


def greedy(logits: Logits, sources_NS: Array, mask_NS: Array, places: int) -> List[List[int]]:
    """Return the tokens of the translation of each source, without what begins and ends it.

    All of the target so far is computed at each token. What follows it is left out, and so is the padding that all
    sources end with: no place of a target looks at either.

    Args:
        places: T, those that the network has for a target.
    """
    import numpy

    count = len(sources_NS)
    longest = int(numpy.flatnonzero(numpy.asarray(mask_NS).any(axis=0)).max(initial=0)) + 1
    seen = width(longest, sources_NS.shape[1])
    sources_NS, mask_NS = sources_NS[:, :seen], mask_NS[:, :seen]
    targets_NT = numpy.full((count, places), PADDING, numpy.int64)
    targets_NT[:, 0] = BEGIN
    limits_N = numpy.minimum(places, MOST_RATIO * numpy.asarray(mask_NS).sum(axis=1) + MOST_MORE)
    found = [[] for _ in range(count)]  # type: List[List[int]]
    going_N = numpy.ones(count, bool)
    for place in range(places):
        so_far_NT = targets_NT[:, : width(place + 1, places)]
        likeliest_N = numpy.argmax(logits(sources_NS, mask_NS, so_far_NT)[:, place], axis=-1)
        going_N &= (likeliest_N != END) & (place < limits_N)
        for row in numpy.flatnonzero(going_N):
            found[row].append(int(likeliest_N[row]))
        if not going_N.any() or place + 1 == places:
            break
        targets_NT[:, place + 1] = numpy.where(going_N, likeliest_N, PADDING)
    return found


def width(needed: int, places: int) -> int:
    """Return how wide an array of ``needed`` places is made, where the network has ``places``: see ``PARTS``."""
    return next(one for one in (-(-places // part) for part in PARTS) if one >= needed)
