"""How many words a network mishears: the word error rate, of the text that its likeliest symbols say.

Words are what is between spaces. A network's are compared with the transcript's by the fewest that have to be put in
another's place, left out or put in (Levenshtein, "Binary codes capable of correcting deletions, insertions, and
reversals", 1966), and the rate is the sum over all utterances by that of the transcripts' words: as jiwer counts it.
Amodei et al., "Deep Speech 2", 2015, section 3.8, search with beams and a language model instead, which this is not.

Dimensions: N utterances of a batch, P places, K symbols.
"""

from typing import Any, Callable, Dict, Mapping, Sequence

from suites.datasets.utterances import characters
from suites.quality import Examples


def sums(outputs: Sequence[Any], examples: Examples, compute: Callable[..., Any]) -> Dict[str, float]:
    """Return {n, words, errors} of the utterances of a batch: ``words`` are those of the transcripts.

    A network that gives what is no number says nothing.
    """
    import numpy

    logits_NPK, (labels_NL, places_N) = outputs[0], examples.targets
    found = {"n": 0.0, "words": 0.0, "errors": 0.0}
    for logits_PK, labels, places in zip(logits_NPK, labels_NL, places_N):
        likeliest_P = logits_PK[: int(places)].argmax(axis=1) if numpy.isfinite(logits_PK).all() else []
        said, wanted = characters.spoken(list(likeliest_P)).split(), characters.text(labels).split()
        found["n"] += 1
        found["words"] += len(wanted)
        found["errors"] += distance(said, wanted)
    return found


def value(sums: Mapping[str, float]) -> float:
    """Return the share of the transcripts' words that is wrong; more than 1 where a network says much that is not."""
    return sums["errors"] / sums["words"]


def distance(said: Sequence[str], wanted: Sequence[str]) -> int:
    """Return how many words have to be exchanged, left out or put in to make ``wanted`` of ``said``."""
    row = list(range(len(wanted) + 1))
    for at, word in enumerate(said, 1):
        before, row[0] = row[0], at
        for place, other in enumerate(wanted, 1):
            exchanged = before + (word != other)
            before = row[place]
            row[place] = min(exchanged, before + 1, row[place - 1] + 1)
    return row[-1]
