"""The statistics of synthetic texts."""

import numpy
import pytest

from suites.inputs import texts
from tests.trainer_process import model_facts, read_job

FACTS = model_facts("lstm_classifier")


@pytest.fixture(scope="module")
def drawn():
    """(tokens, shares, labels) of 2,000 texts at full size."""
    return next(texts.synthetic(2000, FACTS["sizes"]["full"], (3, 0)))


def test_lengths_are_spread_around_the_mean_and_cut(drawn):
    lengths = (drawn[0] != texts.PADDING).sum(axis=1)
    assert lengths.mean() == pytest.approx(40, abs=1)
    assert lengths.std() == pytest.approx(12, abs=1)
    assert 1 <= lengths.min() < 10
    assert lengths.max() == 64


def test_the_shares_of_a_text_add_up_to_one_and_padding_has_none(drawn):
    tokens, shares, _ = drawn
    assert shares.sum(axis=1) == pytest.approx(numpy.ones(2000), rel=1e-6)
    assert ((shares > 0) == (tokens != texts.PADDING)).all()


def test_words_come_as_often_as_in_english(drawn):
    """Mandelbrot's law: the most frequent word is one in 22 of 50,000 here, and the hundredth a 28th of it."""
    words = drawn[0][drawn[0] != texts.PADDING]
    assert words.max() < 50000
    counts = numpy.bincount(words)
    total = (1.0 / (numpy.arange(1, 50000) + texts.SHIFT)).sum()
    assert counts[1] / len(words) == pytest.approx(1 / (1 + texts.SHIFT) / total, rel=0.1)
    assert counts[1:101].sum() / len(words) == pytest.approx(
        (1.0 / (numpy.arange(1, 101) + texts.SHIFT)).sum() / total, rel=0.03
    )


def test_batches_follow_the_seed_and_the_rank_and_state_their_work():
    job = read_job("lstm_classifier", "pytorch", per_device_batch_size=3)
    size = FACTS["sizes"]["tiny"]
    one, again, other = (texts.batches(job, rank, size, "pytorch", lambda *arrays: arrays) for rank in (0, 0, 1))
    for (batch, work), (same, _), (another, _) in zip(
        *[[next(s) for _ in range(6)] for s in (one, again, other)], strict=True
    ):
        assert all((a == b).all() for a, b in zip(batch, same, strict=True))
        assert (batch[0] != another[0]).any()
        assert work == {"texts": 3, "words": int((batch[0] != 0).sum())}
