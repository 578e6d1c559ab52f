"""The word error rate, against jiwer's own numbers."""

import random

import jiwer
import numpy
import pytest

from suites.datasets.utterances import characters
from suites.quality import Examples, word_errors

WORDS = ["THE", "CAT", "SAT", "ON", "A", "MAT", "AND", "DIDN'T", "MOVE"]


def pairs(seed):
    """What is said and heard: words are kept, dropped, doubled, exchanged."""
    generator = random.Random(seed)
    found = []
    for _ in range(generator.randint(1, 12)):
        wanted = [generator.choice(WORDS) for _ in range(generator.randint(1, 9))]
        heard = [word for word in wanted for _ in range(generator.choice([0, 1, 1, 1, 1, 2]))]
        heard = [generator.choice(WORDS) if generator.random() < 0.2 else word for word in heard]
        found.append((" ".join(heard), " ".join(wanted)))
    return found


def counted(found, beyond=0):
    """The sums of a network that gives just what is heard: each character, and a blank behind it."""
    longest = 2 * max(len(heard) for heard, _ in found) + 1 + beyond
    logits = numpy.zeros((len(found), longest, len(characters.CHARACTERS) + 1), numpy.float32)
    labels = numpy.zeros((len(found), max(len(wanted) for _, wanted in found)), int)
    for row, (heard, wanted) in enumerate(found):
        places = [number for one in characters.numbers(heard) for number in (one, characters.BLANK)]
        # Behind the utterance's places something else is likeliest.
        for place, number in enumerate(places + [5] * (longest - len(places))):
            logits[row, place, number] = 1.0
        labels[row, : len(wanted)] = characters.numbers(wanted)
    lengths = numpy.array([2 * len(heard) for heard, _ in found])
    return word_errors.sums([logits], Examples((), (labels, lengths)), None)


@pytest.mark.parametrize("seed", range(30))
def test_the_rate_is_that_of_jiwer(seed):
    found = pairs(seed)
    expected = jiwer.wer([wanted for _, wanted in found], [heard for heard, _ in found])
    assert word_errors.value(counted(found, 3)) == pytest.approx(expected, abs=1e-12)


def test_of_equal_neighbours_one_is_said_unless_a_blank_parts_them_and_padding_says_nothing():
    assert characters.spoken([9, 9, 0, 6, 0, 13, 13, 13, 0, 13, 16, 0, 0]) == "HELLO"
    assert counted([("HELLO", "HELLO"), ("A", "A A")], 4) == {"n": 2.0, "words": 3.0, "errors": 1.0}


def test_a_network_that_tells_no_numbers_hears_nothing():
    logits = numpy.full((1, 4, len(characters.CHARACTERS) + 1), numpy.nan)
    found = word_errors.sums([logits], Examples((), (numpy.array([characters.numbers("A B")]), numpy.array([4]))), None)
    assert word_errors.value(found) == 1.0
