"""Which known word was probably meant by an unknown one."""

from collections.abc import Iterable
from difflib import get_close_matches

# A judgement: difflib's own. ``torch`` is pytorch (0.83), ``bert`` is bert-base (0.62); ``caffe`` is nothing we have.
LIKENESS = 0.6
LONGEST = 100  # a longer text is no misspelt word, and to compare it would take long


def nearest(word: str, offered: Iterable[str]) -> str | None:
    """The one of ``offered`` that is most like ``word``, letter case apart; None where none is like it."""
    if len(word) > LONGEST:
        return None
    by_lower_case = {one.lower(): one for one in offered}
    found = get_close_matches(word.lower(), by_lower_case, n=1, cutoff=LIKENESS)
    return by_lower_case[found[0]] if found else None


def did_you_mean(word: str, offered: Iterable[str]) -> str:
    """``: did you mean pytorch?`` to end a sentence with, or nothing where no word is like it."""
    found = nearest(word, offered)
    return f": did you mean {found}?" if found else ""
