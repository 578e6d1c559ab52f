"""Synthetic sentences and their translations."""

import numpy
import pytest

from suites.inputs import sentence_pairs
from suites.inputs.texts import PADDING
from tests.trainer_process import model_facts, read_job

SIZE = model_facts("transformer")["sizes"]["full"]
N = 3000


@pytest.fixture(scope="module")
def batch():
    return next(sentence_pairs.synthetic(N, SIZE, (1, 0)))


def test_sentences_end_are_padded_behind_and_have_the_spread_of_prose(batch):
    sources, mask = batch[:2]
    lengths = mask.sum(axis=1).astype(int)
    assert ((sources != PADDING) == (mask == 1)).all()
    assert (sources[numpy.arange(N), lengths - 1] == sentence_pairs.END).all()
    assert ((sources == sentence_pairs.END).sum(axis=1) == 1).all()
    assert lengths.mean() == pytest.approx(SIZE["tokens_mean"], rel=0.05)
    assert numpy.median(lengths) < 0.95 * lengths.mean()
    assert lengths.max() == 64


def test_a_translation_is_about_as_long_and_predicts_what_follows(batch):
    _, mask, targets, following, shares = batch
    assert (targets[:, 0] == sentence_pairs.BEGIN).all()
    inside = targets[:, 1:] != PADDING
    assert (targets[:, 1:][inside] == following[:, :-1][inside]).all()
    lengths = (following != PADDING).sum(axis=1)
    assert ((targets != PADDING).sum(axis=1) == lengths).all()
    assert numpy.corrcoef(mask.sum(axis=1), lengths)[0, 1] > 0.9
    assert shares.sum() == pytest.approx(1.0, rel=1e-4)
    assert ((shares > 0) == (following != PADDING)).all()
    assert sentence_pairs.work(*batch) == {"sentences": N, "target_tokens": int(lengths.sum())}


def test_batches_follow_the_seed_and_the_rank():
    job = read_job("transformer", "pytorch", per_device_batch_size=3)
    size = model_facts("transformer")["sizes"]["tiny"]
    one, again, other = (
        next(sentence_pairs.batches(job, rank, size, "pytorch", lambda *arrays: arrays)) for rank in (0, 0, 1)
    )
    assert all((a == b).all() for a, b in zip(one[0], again[0], strict=True))
    assert (one[0][0] != other[0][0]).any()


def test_each_side_has_words_of_its_own():
    size = model_facts("seq2seq")["sizes"]["tiny"]
    arrays = [numpy.concatenate(one) for one in zip(*sentence_pairs.synthetic(N, size, (1, 0)), strict=True)]
    assert [int(arrays[place].max()) + 1 for place in (0, 3)] == [size["source_vocabulary"], size["target_vocabulary"]]


def test_pairs_of_a_dataset_begin_end_and_are_padded():
    pairs = [(numpy.array([10, 11]), numpy.array([20, 21, 22])), (numpy.array([12]), numpy.array([23]))]
    size = {"source_tokens": 4, "target_tokens": 5}
    sources, mask, targets, following, shares = sentence_pairs.of_pairs(pairs, size)
    begin, end = sentence_pairs.BEGIN, sentence_pairs.END
    assert sources.tolist() == [[10, 11, end, 0], [12, end, 0, 0]]
    assert mask.sum(axis=1).tolist() == [3, 2]
    assert targets.tolist() == [[begin, 20, 21, 22, 0], [begin, 23, 0, 0, 0]]
    assert following.tolist() == [[20, 21, 22, end, 0], [23, end, 0, 0, 0]]
    assert (shares[following != 0] == numpy.float32(1 / 6)).all()
