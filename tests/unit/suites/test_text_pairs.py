"""Synthetic pairs of texts: hidden words, and questions with passages."""

import numpy
import pytest

from orchestrator.services.facts.catalog import load_catalog
from suites.datasets.articles import Segments
from suites.datasets.questions import Asked
from suites.inputs import masked_pairs, questions
from suites.inputs.texts import PADDING

FACTS = load_catalog().models["bert-base"]
SIZE = FACTS.sizes["full"]
N, T = 1500, 128


@pytest.fixture(scope="module")
def pairs():
    return next(masked_pairs.synthetic(N, SIZE, (1, 0)))


def test_a_pair_begins_ends_and_is_divided_by_its_marks(pairs):
    tokens, segments, mask = pairs[:3]
    lengths = mask.sum(axis=1).astype(int)
    borders = lengths - segments.sum(axis=1)
    rows = numpy.arange(N)
    assert (tokens[:, 0] == masked_pairs.BEGIN).all()
    assert (tokens[rows, borders - 1] == masked_pairs.END).all()
    assert (tokens[rows, lengths - 1] == masked_pairs.END).all()
    assert ((tokens == masked_pairs.END).sum(axis=1) == 2).all()
    assert ((tokens != PADDING) == (mask == 1)).all()
    assert (mask[:, 1:] <= mask[:, :-1]).all()
    assert borders.min() >= 3
    assert (lengths - borders >= 2).all()


def test_nine_of_ten_sequences_are_full_and_the_others_have_any_length(pairs):
    lengths = pairs[2].sum(axis=1)
    assert (lengths == T).mean() == pytest.approx(0.9, abs=0.03)
    short = lengths[lengths < T]
    assert short.mean() == pytest.approx((5 + T) / 2, rel=0.1)
    assert short.min() < 15


def test_a_seventh_of_the_tokens_is_hidden_and_their_shares_add_up_to_one(pairs):
    tokens, _, mask, places, originals, shares, following = pairs
    hidden = (shares > 0).sum(axis=1)
    expected = numpy.clip(numpy.rint(mask.sum(axis=1) * 0.15), 1, SIZE["predictions"])
    rows = numpy.arange(N)
    assert (hidden <= expected).all()
    assert (hidden == expected).mean() > 0.99  # very short ones have fewer words
    assert shares.sum() == pytest.approx(1.0, rel=1e-4)
    assert originals[shares > 0].min() >= masked_pairs.SPECIAL
    shown = tokens[rows[:, None], places][shares > 0]
    assert (shown == masked_pairs.HIDDEN).mean() == pytest.approx(0.8, abs=0.02)
    assert (shown == originals[shares > 0]).mean() == pytest.approx(0.1, abs=0.03)
    assert following.mean() == pytest.approx(0.5, abs=0.05)
    counted = {"sequences": N, "tokens": int(mask.sum()), "predictions": int(hidden.sum())}
    assert masked_pairs.work(*pairs) == counted


def test_an_answer_stands_in_the_passage():
    size = FACTS.facts_with({"task": "finetune"})["sizes"]["full"]
    batch = next(questions.synthetic(N, size, (1, 0)))
    tokens, segments, mask, begins, ends = batch
    rows = numpy.arange(N)
    assert (begins <= ends).all()
    assert (segments[rows, begins] == 1).all()
    assert (segments[rows, ends] == 1).all()
    assert (tokens[rows, ends] >= masked_pairs.SPECIAL).all()
    assert (ends - begins + 1).mean() == pytest.approx(3.0, rel=0.1)
    assert segments.sum(axis=1).mean() == pytest.approx(151, rel=0.05)
    assert (1 - segments[mask == 1]).sum() / N == pytest.approx(16, rel=0.05)
    assert questions.work(*batch) == {"sequences": N, "tokens": int(mask.sum())}


@pytest.mark.parametrize("which", ["small", "tiny"])
def test_short_sizes_are_cut(which):
    size = FACTS.facts_with({"task": "finetune"})["sizes"][which]
    for tokens, segments, mask, _, ends in questions.synthetic(200, size, (1, 0)):
        assert tokens.shape == (200, size["tokens"])
        assert (ends < mask.sum(axis=1) - 1).all()
        assert segments.any(axis=1).all()


def test_texts_of_a_dataset_are_laid_out_between_the_marks_and_hidden_as_synthetic_ones():
    texts = [(numpy.arange(10, 20), numpy.arange(30, 36)), (numpy.arange(40, 80), numpy.arange(90, 170))]
    pairs = [Segments(first, second, bool(at), "draw") for at, (first, second) in enumerate(texts)]
    (batch,) = masked_pairs.of_articles(iter([pairs]), SIZE, (1, 0))
    tokens, segments, mask, places, originals, shares, following = batch
    rows = numpy.arange(2)[:, None]
    tokens[rows, places] = numpy.where(shares > 0, originals, tokens[rows, places])
    for row, (first, second) in enumerate(texts):
        whole = [masked_pairs.BEGIN, *first, masked_pairs.END, *second, masked_pairs.END]
        assert tokens[row].tolist() == whole + [PADDING] * (T - len(whole))
        assert segments[row].tolist() == [0] * (len(first) + 2) + [1] * (len(second) + 1) + [0] * (T - len(whole))
    assert following.tolist() == [0, 1]
    assert masked_pairs.work(*batch)["tokens"] == mask.sum() == 10 + 6 + 3 + 40 + 80 + 3
    assert [array.dtype for array in batch] == [array.dtype for array in next(masked_pairs.synthetic(2, SIZE, (1, 0)))]


def test_the_answer_of_a_dataset_stands_where_its_places_say():
    passage = numpy.arange(100, 140)
    (batch,) = questions.of_asked(iter([[Asked(passage, numpy.arange(10, 15), 7, 9)]]), 60)
    tokens, _, mask, begins, ends = batch
    assert tokens[0, begins[0] : ends[0] + 1].tolist() == [107, 108, 109]
    assert mask.sum() == 40 + 5 + 3
