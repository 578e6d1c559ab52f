"""How many samples an epoch has: as many as are shown before one is shown again, by all ranks together."""

import itertools

import numpy
import pytest

from suites.datasets import articles, numbered, questions, running_text, sentence_pairs, subwords
from suites.datasets.image_folder import listing
from suites.datasets.utterances import arrays, loading
from suites.inputs import images, masked_pairs, prose, utterances
from suites.inputs import questions as asked
from suites.inputs import sentence_pairs as pairs
from tests.trainer_process import read_job
from workers.trainer.base.failure import TrainerError

VOCABULARY = 60
RANKS, COUNT = 2, 3
SIZE = {"tokens": 6, "source_tokens": 8, "target_tokens": 8, "vocabulary": VOCABULARY, "frames": 3, "characters": 2}


@pytest.fixture
def root(tmp_path):
    """A prepared dataset of every layout: 75 tokens, the last of which fill no piece; of 17 pairs one is too long, and
    four fill no batch of both ranks; of 14 utterances one has a frame too many, another a character."""
    (tmp_path / "numbers" / str(VOCABULARY)).mkdir(parents=True)
    sequences = {
        "text": [[number] * 5 for number in range(5, 20)],
        "sentences": [[number, number] for number in range(5, 17)],
        "source": [*([number] for number in range(5, 21)), list(range(5, 15))],
        "target": [[9]] * 17,
        "contexts": [[number] * 4 for number in range(5, 9)],
        "questions": [[number, 7] for number in range(5, 17)],
    }
    for name, rows in sequences.items():
        subwords.write_sequences(str(tmp_path), VOCABULARY, "train." + name, rows)
    for name, rows in {"documents": [4, 12], "answers": [[number % 4, 1, 2] for number in range(12)]}.items():
        numpy.save(numbered.path_of(str(tmp_path), VOCABULARY, "train." + name), numpy.array(rows))
    ends = numpy.cumsum([320] * 12 + [800, 640])
    arrays.begun(str(tmp_path), "train", ends[-1])[:] = 1
    arrays.finished(str(tmp_path), "train", ends, [*"ABCDEFGHIJKLM", "NOP"])
    for number in range(12):
        folder = tmp_path / "train" / str(number % 2)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.jpg").touch()
    return str(tmp_path)


def a_job(root, **changes):
    dataset = {"name": "it", "root": root, "loader": "image_folder"}
    return read_job("gpt_2", "pytorch", ranks=RANKS, dataset=dataset, per_device_batch_size=COUNT, **changes)


# input -> its batches of a rank, and how two samples are told apart
STREAMS = {
    prose: (
        lambda *at: running_text.batches(at[0], COUNT, SIZE["tokens"], *at[1:]),
        lambda batch: map(tuple, batch[0].tolist()),
    ),
    masked_pairs: (
        lambda *at: articles.batches(at[0], COUNT, 9, *at[1:]),
        lambda batch: [one.first[0] for one in batch],
    ),
    asked: (lambda *at: questions.batches(at[0], COUNT, 9, *at[1:]), lambda batch: [one.question[0] for one in batch]),
    pairs: (
        lambda *at: sentence_pairs.batches(at[0], COUNT, 7, *at[1:]),
        lambda batch: [int(one[0]) for one, _ in batch],
    ),
    utterances: (
        lambda root, _, *at: loading.batches(root, COUNT, (SIZE["frames"], SIZE["characters"]), *at),
        lambda batch: [int(labels[0]) for _, labels in batch],
    ),
    images: (
        lambda root, _, *at: listing.batches(listing.files(root), COUNT, *at),
        lambda batch: [sample.entry.path for sample in batch],
    ),
}


@pytest.mark.parametrize("inputs", STREAMS, ids=lambda module: module.__name__.rpartition(".")[2])
def test_an_epoch_shows_so_many_samples_and_each_of_them_once(root, inputs):
    samples = inputs.epoch_samples(a_job(root), SIZE)
    batches, told_apart = STREAMS[inputs]
    streams = [batches(root, VOCABULARY, 1, rank, RANKS) for rank in range(RANKS)]
    assert samples == 12
    shown = [told_apart(batch) for stream in streams for batch in itertools.islice(stream, samples // RANKS // COUNT)]
    assert len(set(itertools.chain(*shown))) == samples


@pytest.mark.parametrize("inputs", STREAMS, ids=lambda module: module.__name__.rpartition(".")[2])
def test_what_is_random_has_no_epochs(inputs):
    with pytest.raises(TrainerError, match="synthetic data has no quality that could be evaluated: name a dataset"):
        inputs.epoch_samples(read_job("gpt_2", "pytorch"), SIZE)
