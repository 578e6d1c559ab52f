"""The symbols of transcripts, and how many of them fit into an utterance.

0 is the blank of connectionist temporal classification, which is no character: Graves et al., "Connectionist Temporal
Classification", 2006, section 3.
"""

from typing import List, Sequence

from workers.trainer.base.signatures import Array

BLANK = 0
# Those of LibriSpeech's transcripts, numbered from 1.
CHARACTERS = "'ABCDEFGHIJKLMNOPQRSTUVWXYZ "

# Networks take every so-manieth frame.
STRIDE = 2

_NUMBERS = {character: number for number, character in enumerate(CHARACTERS, BLANK + 1)}


def numbers(text: str) -> List[int]:
    """Return the numbers of the characters of ``text``.

    Raises:
        KeyError: one is not among ``CHARACTERS``: that one.
    """
    return [_NUMBERS[character] for character in text]


def text(found: Sequence[int]) -> str:
    """Return the text of numbers, without blanks."""
    return "".join(CHARACTERS[number - 1] for number in found if number != BLANK)


def spoken(likeliest: Sequence[int]) -> str:
    """Return the text that a symbol for each place stands for: of equal neighbours one is said, and no blanks."""
    before = [BLANK] + list(likeliest[:-1])
    return text([number for number, one in zip(likeliest, before) if number != one])


def places(frames: Array) -> Array:
    """Return how many places a network has of so many frames."""
    return -(-frames // STRIDE)


def needed(found: Sequence[int]) -> int:
    """Return how many places a transcript takes at least: one for each character, and a blank between equal ones."""
    return len(found) + sum(one == other for one, other in zip(found, found[1:]))
