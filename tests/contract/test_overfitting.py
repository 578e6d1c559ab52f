"""Every language model learns a few real sentences by heart: gradients, masks, targets and optimiser belong together.

Then its quality is the best there is, by the model's own metric, and by the way from a dataset's text to numbers and
back. What it is judged by is what it was trained on, which no run does.

The sentences are those of Python's own documentation, which every Python has with it (``pydoc_data.topics``), as
numbers of their most frequent words.
"""

import collections
import json
import math
import os
import pydoc_data.topics
import re
import subprocess
from pathlib import Path

import numpy
import pytest

from orchestrator.services.facts.catalog import load_catalog
from orchestrator.services.probe import parity
from suites.assemble import layers
from suites.datasets import judged, numbered, pieces, subwords
from suites.datasets.utterances import characters
from suites.inputs import masked_pairs, sentence_pairs
from suites.models.transformer.network import LABEL_SMOOTHING
from tests.support.networks import layers_of
from tests.trainer_process import ROOT, environment_for

MODELS = load_catalog().models
SCRIPT = Path(__file__).parent / "scripts" / "overfit.py"
BATCH, SEED, STEPS = 4, 1, 150
# Judgement: a rate at which networks of this size learn within seconds.
OPTIMIZER = {"name": "adam", "learning_rate": 5e-3, "betas": [0.9, 0.98]}
# Judgement: what is left of a loss that began at the logarithm of the vocabulary, some 5.
LEARNT = 0.25
PERPLEXED = 0.1
# What is no text comes first in the numbers of every vocabulary.
SPECIAL = numbered.UNKNOWN + 1


def vocabulary(count, special):
    """The documentation's words in their order, and the most frequent ones: numbered from ``special`` on there are
    ``count`` numbers, of which the last stands for all others."""
    found = re.findall(r"[a-z]+", " ".join(text for _, text in sorted(pydoc_data.topics.topics.items())).lower())
    return found, [word for word, _ in collections.Counter(found).most_common(count - special - 1)]


def words(count, special):
    """The documentation's words in their order, as numbers from ``special`` on; rare ones are all the last number."""
    found, frequent = vocabulary(count, special)
    numbers = {word: number + special for number, word in enumerate(frequent)}
    return numpy.array([numbers.get(word, count - 1) for word in found[:4000]])


def count_of(size):
    """How many tokens a model knows; of those that know words, on the target's side."""
    return size.get("vocabulary") or size.get("target_vocabulary") or size["symbols"]


def text(size, tokens):
    """The text of words as numbers, the rare ones as one word."""
    _, frequent = vocabulary(count_of(size), SPECIAL)
    return " ".join([*frequent, "seldom"][token - SPECIAL] for token in tokens)


def prepared(root, size, **sequences):
    """A dataset whose only split is one to be judged by, with these sequences of numbers; its folder."""
    known = size.get("vocabulary", numbered.WORDS)
    Path(numbered.folder_of(str(root), known)).mkdir(parents=True)
    _, frequent = vocabulary(count_of(size), SPECIAL)
    pieces.write(str(root), known, [pieces.SPACE + word for word in [*"pbemu", *frequent, "seldom"]])
    for name, rows in sequences.items():
        subwords.write_sequences(str(root), known, "test." + name, rows)
    return str(root)


def prose(size):
    found = words(size["vocabulary"], 0)
    starts = [place * 500 for place in range(BATCH)]
    tokens = numpy.stack([found[start : start + size["tokens"] + 1] for start in starts])
    return {"tokens": tokens[:, :-1], "following": tokens[:, 1:]}, 0.0


def pairs(size):
    """Pairs of unequal lengths."""
    found = words(size["vocabulary"], SPECIAL)
    drawn = numpy.stack([found[start * 500 : start * 500 + size["tokens"]] for start in range(BATCH)])
    lengths = size["tokens"] - 3 * numpy.arange(BATCH)
    return masked_pairs.laid_out(drawn, lengths // 2, lengths), lengths


def hidden_words(size):
    (tokens, segments, mask), lengths = pairs(size)
    places = numpy.stack([numpy.arange(1, 1 + size["predictions"]) for _ in lengths])
    originals = numpy.take_along_axis(tokens, places, axis=1)
    numpy.put_along_axis(tokens, places, masked_pairs.HIDDEN, axis=1)
    shares = numpy.full(places.shape, 1.0 / places.size, numpy.float32)
    arrays = {"tokens": tokens, "segments": segments, "mask": mask, "places": places, "originals": originals}
    return {**arrays, "shares": shares, "following": numpy.arange(BATCH) % 2}, 0.0


def questions_of(size, batch, root):
    """The same questions as a dataset has them: passages with their texts, and what the answers are there."""
    lengths = batch["mask"].sum(axis=1).astype(int)
    borders = lengths - batch["segments"].sum(axis=1)
    rows = list(zip(batch["tokens"], borders, lengths, strict=True))
    contexts = [tokens[border : length - 1].tolist() for tokens, border, length in rows]
    prepared(root, size, contexts=contexts, questions=[tokens[1 : border - 1].tolist() for tokens, border, _ in rows])
    places = [(row, *(batch[end][row] - borders[row] for end in ("begins", "ends"))) for row in range(BATCH)]
    numpy.save(numbered.path_of(str(root), size["vocabulary"], "test.answers"), numpy.array(places))
    characters = [match.span() for context in contexts for match in re.finditer(r"\w+", text(size, context))]
    numpy.save(numbered.path_of(str(root), size["vocabulary"], "test.characters"), numpy.array(characters))
    gold = [[text(size, contexts[row][first : last + 1])] for row, first, last in places]
    judged.write(str(root), "test", {"contexts": [text(size, context) for context in contexts], "answers": gold})


def answers(size):
    (tokens, segments, mask), lengths = pairs(size)
    begins = lengths // 2 + numpy.arange(BATCH)
    return {"tokens": tokens, "segments": segments, "mask": mask, "begins": begins, "ends": begins + 1}, 0.0


def reversed_sentences(size):
    """Sentences of unequal lengths, "translated" by their words in reverse."""
    found = words(count_of(size), SPECIAL)
    arrays = {name: numpy.zeros((BATCH, size["source_tokens"]), numpy.int64) for name in ("sources", "mask")}
    arrays |= {name: numpy.zeros((BATCH, size["target_tokens"]), numpy.int64) for name in ("targets", "following")}
    for row, length in enumerate((9, 7, 5, 3)):
        sentence = found[row * 500 : row * 500 + length]
        arrays["sources"][row, : length + 1] = [*sentence, sentence_pairs.END]
        arrays["targets"][row, : length + 1] = [sentence_pairs.BEGIN, *sentence[::-1]]
        arrays["following"][row, : length + 1] = [*sentence[::-1], sentence_pairs.END]
    within = (arrays["following"] != 0).astype(numpy.float32)
    arrays["mask"] = (arrays["sources"] != 0).astype(numpy.float32)
    if "vocabulary" not in size:
        return {**arrays, "shares": within / within.sum()}, 0.0
    # Nobody can be surer than smoothed labels are: their entropy is what remains.
    spread = LABEL_SMOOTHING / size["vocabulary"]
    certain = 1 - LABEL_SMOOTHING + spread
    least = -certain * math.log(certain) - (size["vocabulary"] - 1) * spread * math.log(spread)
    return {**arrays, "shares": within / within.sum()}, least


def sentences_of(size, batch, root):
    """The same sentences as a dataset has them, with the references as text."""
    sides = [
        [[int(token) for token in row if token >= SPECIAL] for row in batch[name]] for name in ("sources", "following")
    ]
    prepared(root, size, source=sides[0], target=sides[1])
    judged.write(str(root), "test", [text(size, row) for row in sides[1]])


# So many frames for each character: a place for it and some for a blank.
SPOKEN = 8


def spelled(size):
    """Words of the documentation, each character as a tone of its own, behind each other in noise."""
    generator, found = numpy.random.RandomState(SEED), vocabulary(100, SPECIAL)[0]
    frames, longest = 128, 128 // SPOKEN
    arrays = {"spectrograms": generator.standard_normal((BATCH, size["frequencies"], frames)) / 4}
    arrays |= {"mask": numpy.zeros((BATCH, frames)), "labels": numpy.zeros((BATCH, longest), int)}
    for row in range(BATCH):
        said = characters.numbers(" ".join(found[row * 500 :])[: longest - 2 * row].strip().upper())
        arrays["labels"][row, : len(said)] = said
        arrays["mask"][row, : SPOKEN * len(said)] = 1
        for place, number in enumerate(said):
            arrays["spectrograms"][row, 5 * number : 5 * number + 5, SPOKEN * place : SPOKEN * place + 4] += 2
    arrays["spectrograms"] *= arrays["mask"][:, None]
    arrays |= {name: arrays[name].astype(numpy.float32) for name in ("spectrograms", "mask")}
    return {**arrays, "places": characters.places(arrays["mask"].sum(axis=1).astype(int))}, 0.0


FINETUNE = {"task": "finetune"}
# case -> model, options, its batch, that as a dataset (where more than the batch is judged by), and the best quality
CASES = {
    "gpt-2": ("gpt-2", {}, prose, None, 1.0),
    "bert-base": ("bert-base", {}, hidden_words, None, 1.0),
    "bert-base-finetune": ("bert-base", FINETUNE, answers, questions_of, 1.0),
    "transformer": ("transformer", {}, reversed_sentences, sentences_of, 100.0),
    "seq2seq": ("seq2seq", {}, reversed_sentences, sentences_of, 100.0),
    "deep-speech-2": ("deep-speech-2", {}, spelled, None, 0.0),
    "deep-speech-2-gru": ("deep-speech-2", {"cell": "gru"}, spelled, None, 0.0),
}
CELLS = [
    pytest.param(
        case,
        framework,
        marks=[pytest.mark.framework(framework), pytest.mark.after_change],
    )
    for case, (model, *_) in CASES.items()
    for framework in MODELS[model].frameworks
]


@pytest.mark.parametrize(("case", "framework"), CELLS)
def test_a_model_learns_a_few_sentences_by_heart(python_of, tmp_path, case, framework):
    name, options, batch_of, dataset_of, best = CASES[case]
    size = parity.size_of(MODELS[name], "tiny", options)
    arrays, least = batch_of(size)
    weights = layers.initial_weights(layers_of(MODELS[name], size), SEED)
    numpy.savez(tmp_path / "case.npz", **weights, **{f"batch.{field}": value for field, value in arrays.items()})
    job = parity.job(MODELS[name], framework, size, BATCH, SEED, [0], options)
    job["model"] = {**job["model"], "optimizer": OPTIMIZER}
    if dataset_of:
        dataset_of(size, arrays, tmp_path / "dataset")
        job["dataset"] = {"name": "by-heart", "root": str(tmp_path / "dataset")}
    found = trained(python_of(framework), job, tmp_path)
    losses = found["losses"]
    assert losses[0] > 0.6 * math.log(count_of(size) if "answer" not in batch_of.__name__ else size["tokens"])
    assert losses[-1] < least + LEARNT, losses
    # Perplexities are never quite 1; exact are the others.
    assert found["quality"] == pytest.approx(best, rel=PERPLEXED if best == 1.0 and not dataset_of else 1e-9)


def trained(python, job, folder):
    """The losses of a real process that trains on the batch of ``case.npz``, and the quality of what it trained."""
    (folder / "job.json").write_text(json.dumps({**job, "process": "worker0"}))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment_for(python)}
    command = [python, str(SCRIPT), str(folder / "job.json"), str(folder / "case.npz"), str(STEPS)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
