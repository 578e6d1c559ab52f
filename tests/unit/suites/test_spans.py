"""SQuAD's exact match and F1, and the span that is the answer."""

import numpy
import pytest

from suites.quality import spans


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The  Broncos!", "broncos"),
        ("an apple a day", "apple day"),
        ("U.S.A.", "usa"),
        ("theatre", "theatre"),
        ("Saint-Étienne", "saintétienne"),
        ("“quoted”", "“quoted”"),  # only ASCII punctuation goes, as in the official script
        ("the", ""),
    ],
)
def test_answers_are_normalised_as_the_official_script_does(text, normal):
    assert spans.normalised(text) == normal


@pytest.mark.parametrize(
    ("answer", "gold", "exact", "f1"),
    [
        ("the Denver Broncos", ["Denver Broncos"], 1.0, 1.0),
        ("Broncos", ["Denver Broncos"], 0.0, 2 / 3),
        ("Broncos of Denver town", ["Denver Broncos", "the Broncos"], 0.0, 2 / 3),
        ("red red", ["red"], 0.0, 2 / 3),
        ("blue", ["red", "green"], 0.0, 0.0),
        ("the", ["the"], 1.0, 0.0),  # nothing is left: equal, and no word in common
    ],
)
def test_the_best_of_all_right_answers_counts(answer, gold, exact, f1):
    assert spans.exact(answer, gold) == exact
    assert spans.f1(answer, gold) == pytest.approx(f1)


def test_sums_are_over_questions():
    found = spans.counted([("red", ["red"]), ("red car", ["red"]), ("blue", ["red"])])
    assert found == {"n": 3, "exact": 1, "f1": pytest.approx(1 + 2 / 3)}


def test_the_best_span_is_that_of_a_search_through_all():
    generator = numpy.random.RandomState(1)
    begins, ends = generator.normal(size=(2, 50, 20)).astype(numpy.float32)
    firsts = generator.randint(0, 8, 50)
    lasts = firsts + generator.randint(0, 12, 50)
    found = spans.best_spans(begins, ends, firsts, lasts, 5)
    for row, (first, last) in enumerate(zip(firsts, lasts, strict=True)):
        places = [(begin, end) for begin in range(first, last + 1) for end in range(begin, min(last + 1, begin + 5))]
        expected = max((float(begins[row, begin]) + float(ends[row, end]), begin, end) for begin, end in places)
        assert found[row] == pytest.approx(expected)


def test_a_span_lies_in_the_passage_and_is_no_longer_than_allowed():
    begins, ends = numpy.zeros((2, 1, 50))
    begins[0, [2, 10]], ends[0, [48, 12]] = [9, 5], [9, 5]
    assert spans.best_spans(begins, ends, [8], [45])[0][1:] == (10, 12)
    assert spans.best_spans(begins, ends, [0], [49], 50)[0][1:] == (2, 48)
    assert spans.best_spans(begins, ends, [7], [7])[0][1:] == (7, 7)


def test_a_network_that_says_nothing_answers_with_the_passages_first_token():
    nothing = numpy.full((1, 50), numpy.nan)
    assert spans.best_spans(nothing, nothing, [8], [45])[0][1:] == (8, 8)
