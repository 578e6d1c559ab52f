"""BLEU as sacrebleu computes it, by sums that can be added over sentences, batches and ranks.

Source of the measure: Papineni et al., "BLEU: a Method for Automatic Evaluation of Machine Translation", 2002. What it
leaves open, the words above all, is that of sacrebleu (Post, "A Call for Clarity in Reporting BLEU Scores", 2018) as it
is by default, which ``SIGNATURE`` names: words as NIST's ``mteval-v13a.pl`` parts them, upper and lower case told
apart, one reference, and precisions of zero smoothed as that script does. A test holds the result equal to sacrebleu's.

It stands here and not behind sacrebleu's own interface because a run that trains to a target has to know its BLEU while
it trains: in the interpreters of the frameworks, which do not have sacrebleu, and of sentences that several ranks have
translated. The sums are all that BLEU depends on.
"""

import collections
import math
import re
from typing import Dict, Iterable, List, Mapping, Tuple

ORDERS = (1, 2, 3, 4)
# sacrebleu's name for what is computed here, without its version: that is the one that the tests compare with.
SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp"

_ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
_PARTED = (
    # All ASCII punctuation but full stop, comma, hyphen and apostrophe.
    (re.compile(r"([\{-\~\[-\` -\&\(-\+\:-\@\/])"), r" \1 "),
    # Full stop and comma, unless a digit stands before or behind.
    (re.compile(r"([^0-9])([\.,])"), r"\1 \2 "),
    (re.compile(r"([\.,])([^0-9])"), r" \1 \2"),
    # A hyphen behind a digit.
    (re.compile(r"([0-9])(-)"), r"\1 \2 "),
)


def words(text: str) -> List[str]:
    """Return the words of a sentence as ``mteval-v13a.pl`` parts them."""
    text = text.rstrip().replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
    for entity, character in _ENTITIES:
        text = text.replace(entity, character)
    text = " %s " % text
    for pattern, replacement in _PARTED:
        text = pattern.sub(replacement, text)
    return text.split()


def sums(pairs: Iterable[Tuple[str, str]]) -> Dict[str, float]:
    """Return what BLEU depends on, of pairs (translation, reference): to be added over ranks.

    ``n``: sentences; ``words`` and ``reference_words``; for each order ``found_N``, the N-grams of the translations
    that are in their references (each as often as it is there at most), of ``offered_N``.
    """
    found = dict.fromkeys(names(), 0.0)
    for translation, reference in pairs:
        offered, wanted = words(translation), words(reference)
        found["n"] += 1
        found["words"] += len(offered)
        found["reference_words"] += len(wanted)
        for order in ORDERS:
            common = _grams(offered, order) & _grams(wanted, order)
            found["found_%d" % order] += sum(common.values())
            found["offered_%d" % order] += max(0, len(offered) - order + 1)
    return found


def names() -> List[str]:
    """Return the names of ``sums``."""
    counted = ["%s_%d" % (what, order) for order in ORDERS for what in ("found", "offered")]
    return ["n", "words", "reference_words"] + counted


def _grams(found, order):
    return collections.Counter(zip(*(found[at:] for at in range(order))))


def value(sums: Mapping[str, float]) -> float:
    """Return BLEU, 0 to 100, of added ``sums``."""
    if not any(sums["found_%d" % order] for order in ORDERS):
        return 0.0
    logarithms = []
    halved = 1.0
    for order in ORDERS:
        found, offered = (sums["%s_%d" % (what, order)] for what in ("found", "offered"))
        if not offered:
            # No translation is so long.
            return 0.0
        if not found:
            # The first precision of zero becomes that of half an N-gram, the next of a quarter.
            halved /= 2
        logarithms.append(math.log(100.0 * (found or halved) / offered))
    short = sums["words"] < sums["reference_words"]
    penalty = 1.0 - sums["reference_words"] / sums["words"] if short else 0.0
    return math.exp(penalty + sum(logarithms) / len(ORDERS))
