"""Synthetic running text."""

import numpy
import pytest

from suites.inputs import prose, texts
from tests.trainer_process import model_facts, read_job

SIZE = model_facts("gpt_2")["sizes"]["full"]


def test_each_place_is_to_be_followed_by_the_next_token_and_the_work_counts_all():
    tokens, following = next(prose.synthetic(3, SIZE, (1, 0)))
    assert tokens.shape == following.shape == (3, 1024)
    assert (tokens[:, 1:] == following[:, :-1]).all()
    assert prose.work(tokens, following) == {"tokens": 3072, "sequences": 3}


def test_tokens_come_as_often_as_in_a_language_and_stay_within_the_vocabulary():
    tokens = numpy.concatenate([batch[0].ravel() for batch in prose.synthetic(100, SIZE, (2, 0))])
    shares = numpy.bincount(tokens, minlength=SIZE["vocabulary"]) / len(tokens)
    expected = 1 / (numpy.arange(1, SIZE["vocabulary"] + 1) + texts.SHIFT)
    assert len(shares) == SIZE["vocabulary"]
    assert shares[:50] == pytest.approx(expected[:50] / expected.sum(), rel=0.1)


def test_batches_follow_the_seed_and_the_rank():
    job = read_job("gpt_2", "pytorch", per_device_batch_size=2)
    size = model_facts("gpt_2")["sizes"]["tiny"]
    one, again, other = (prose.batches(job, rank, size, "pytorch", lambda *arrays: arrays) for rank in (0, 0, 1))
    for _ in range(5):
        (batch, work), (same, _), (another, _) = next(one), next(again), next(other)
        assert all((a == b).all() for a, b in zip(batch, same, strict=True))
        assert (batch[0] != another[0]).any()
        assert work == {"tokens": 32, "sequences": 2}
