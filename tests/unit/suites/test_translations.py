"""Greedy translations, from a network whose answers are known."""

import numpy

from suites.datasets.numbered import BEGIN, END, PADDING
from suites.quality import translations

VOCABULARY = 30


def following(rule):
    """Logits whose greatest is, for each place, what ``rule(source, target so far)`` says comes next."""

    def logits(sources, mask, targets):
        found = numpy.zeros((*targets.shape, VOCABULARY))
        for row, target in enumerate(targets):
            source = sources[row][mask[row] > 0].tolist()
            for place in range(len(target)):
                found[row, place, rule(source, target[: place + 1].tolist())] = 1.0
        return found

    return logits


def batch(*sentences):
    length = max(map(len, sentences)) + 1
    sources = numpy.array([[*one, END] + [PADDING] * (length - len(one) - 1) for one in sentences])
    return sources, (sources != PADDING).astype(numpy.float32)


def test_each_token_follows_from_those_before_and_the_end_ends_it():
    copied = following(lambda source, target: (source + [END] * 20)[len(target) - 1])
    assert translations.greedy(copied, *batch([5, 6, 7], [8], [9, 10]), 12) == [[5, 6, 7], [8], [9, 10]]


def test_what_has_ended_is_padded_and_stays_ended():
    seen = []

    def rule(source, target):
        seen.append(tuple(target))
        return END if len(target) > len(source) - 1 else 20 + len(target)

    assert translations.greedy(following(rule), *batch([5, 6, 7], [8]), 6) == [[21, 22, 23], [21]]
    assert (BEGIN, 21, PADDING) in seen
    assert all(END not in target for target in seen)


def test_arrays_are_no_wider_than_the_sources_and_what_was_translated_so_far():
    shapes = []
    rule = following(lambda source, target: END if len(target) > 6 else 9)

    def logits(sources, mask, targets):
        shapes.append((sources.shape, mask.shape, targets.shape))
        return rule(sources, mask, targets)

    sources, mask = batch([5] * 16, [6, 7, 8])
    whole = translations.greedy(logits, sources[:1], mask[:1], 12)
    short = translations.greedy(logits, sources[1:], mask[1:], 12)
    assert whole == short == [[9] * 6]
    # Seventeen tokens of seventeen; four of them: a quarter, rounded up. A target of three, of six, of twelve places.
    widths = [3] * 3 + [6] * 3 + [12]
    assert shapes == [((1, seen), (1, seen), (1, width)) for seen in (17, 5) for width in widths]


def test_a_translation_without_end_ends_by_its_source_or_where_the_network_has_no_places():
    endless = following(lambda source, target: 9)
    short, long = translations.greedy(endless, *batch([5], [5] * 19), 30)
    assert (len(short), len(long)) == (13, 30)  # 1.5 x 2 + 10, for the end counts; the places
