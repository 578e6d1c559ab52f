"""Making the datasets of texts, of speech and of shapes, for real, in the interpreter that their facts name."""

import itertools
import json
import subprocess

import numpy
import pytest

from suites.datasets import (
    articles,
    numbered,
    pieces,
    questions,
    running_text,
    sentence_pairs,
    text_layouts,
    text_numbers,
)
from suites.datasets.coco import loading as coco_loading
from suites.datasets.pascal_voc import layout as pascal_voc
from suites.datasets.utterances import layout, loading, spectrogram
from suites.quality import bleu, spans
from tests.trainer_process import ROOT, dataset_facts
from workers.trainer.base import manifest

# Half a minute: most of it is the reading of the packages' sources.
pytestmark = pytest.mark.after_change

FOLDERS = ("documentation", "documentation_articles", "documentation_questions", "message_catalogues")


def coco(root):
    return {split: coco_loading.Images(root, split) for split in ("train", "val")}


READ_BY = {name: way.read for name, way in text_numbers.WAYS.items()}
READ_BY |= {"librispeech": layout.utterances, "pascal-voc": pascal_voc.splits, "coco": coco}


@pytest.mark.parametrize("folder", [*FOLDERS, "spoken_documentation", "drawn_shapes", "outlined_shapes"])
def test_a_dataset_is_what_its_facts_say(made_dataset, folder):
    root = made_dataset(folder)
    facts, found = dataset_facts(folder, root), manifest.identity(manifest.read(root))
    assert found["files"] == facts["files"]
    assert manifest.read(root)["version"] == facts["version"]
    splits = {split: len(items) for split, items in READ_BY[facts["layout"]](str(root)).items()}
    told = {split: next(iter(counts.values())) for split, counts in facts["splits"].items()}
    assert splits == (pytest.approx(told, rel=0.5) if folder == "message_catalogues" else told)
    # The catalogues are those of this machine.
    assert found["bytes"] == pytest.approx(facts["bytes"], rel=0.5 if folder == "message_catalogues" else 0.02)
    assert manifest.problems(str(root), manifest.read(root)) == []


@pytest.mark.parametrize("folder", ["message_catalogues", "spoken_documentation", "drawn_shapes", "outlined_shapes"])
def test_making_one_again_makes_the_same(made_dataset, python_of, tmp_path, folder):
    command = [python_of("datasets"), "-m", f"suites.datasets.{folder}.prepare", "--root", str(tmp_path / "again")]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    made = manifest.read(made_dataset(folder))
    assert manifest.identity(manifest.read(tmp_path / "again")) == manifest.identity(made)


def test_what_is_spoken_is_heard_by_several_speakers_and_short_ones_fit_a_size_for_tests(made_dataset):
    root = made_dataset("spoken_documentation")
    assert len(list((root / "train").iterdir())) >= 6
    found = loading.judged(str(root))
    assert len({bytes(samples) for samples, _ in found}) == len(found)
    assert all(8 < len(labels) / (len(samples) / spectrogram.RATE) < 25 for samples, labels in found)
    assert all(abs(samples.astype(float)).mean() > 200 for samples, _ in found)
    assert loading.epoch_samples(str(root), (240, 60)) >= 64


def decoded(python_of, root, vocabulary, rows):
    """The texts of rows of numbers, as SentencePiece gives them back."""
    program = (
        "import json, sys, sentencepiece\n"
        "processor = sentencepiece.SentencePieceProcessor(model_file=sys.argv[1])\n"
        "print(json.dumps([processor.decode(row) for row in json.load(sys.stdin)]))\n"
    )
    model = f"{numbered.folder_of(str(root), vocabulary)}/vocabulary.model"
    done = subprocess.run(
        [python_of("datasets"), "-c", program, model],
        input=json.dumps(rows),
        capture_output=True,
        check=True,
        text=True,
    )
    return json.loads(done.stdout)


def test_the_numbers_of_a_pair_are_its_two_sentences(made_dataset, python_of):
    root = made_dataset("message_catalogues")
    pairs = text_layouts.pairs(str(root))["train"]
    assert len(pairs) >= 5000
    for side in ("source", "target"):
        numbers = numbered.sequences(str(root), 8000, "train." + side)
        assert len(numbers) == len(pairs)
        some = range(0, len(pairs), len(pairs) // 50)
        texts = decoded(python_of, root, 8000, [numbers[at].tolist() for at in some])
        # SentencePiece writes compatible characters alike, and ⁇ for those that it does not know.
        same = [text == getattr(pairs[at], side) for text, at in zip(texts, some, strict=True)]
        assert sum(same) >= 0.8 * len(same)


@pytest.mark.parametrize("vocabulary", [180, 8000])
def test_the_pieces_give_the_text_that_sentencepiece_gives(made_dataset, python_of, vocabulary):
    root = made_dataset("message_catalogues")
    numbers = numbered.sequences(str(root), vocabulary, "tst2013.target")
    rows = [numbers[at].tolist() for at in range(len(numbers))]
    known = pieces.read(str(root), vocabulary)
    assert [known.text(row) for row in rows] == decoded(python_of, root, vocabulary, rows)


def test_references_are_the_sentences_as_they_are_and_their_numbers_nearly_say_them(made_dataset):
    root = made_dataset("message_catalogues")
    found = sentence_pairs.judged(str(root), 8000, 0, 1)
    assert sorted(found.references) == sorted(pair.target for pair in text_layouts.pairs(str(root))["tst2013"])
    numbers, pairs = numbered.sequences(str(root), 8000, "tst2013.target"), text_layouts.pairs(str(root))["tst2013"]
    said = [(found.pieces.text(numbers[at]), pair.target) for at, pair in enumerate(pairs)]
    # What SentencePiece writes otherwise costs a perfect translation so much.
    assert 97 < bleu.value(bleu.sums(said)) < 100


def test_the_right_tokens_score_nearly_full_marks_by_squads_measure(made_dataset):
    root = made_dataset("documentation_questions")
    found = questions.judged(str(root), 8000, 0, 1)
    answers = numbered.array(str(root), 8000, "dev.answers")
    said = [(found.text(number, *answers[number][1:]), found.gold(number)) for number in found.numbers]
    sums = spans.counted(said)
    assert sums["n"] == len(text_layouts.questions(str(root))["dev"])
    # A token that holds more than the answer costs the rest.
    assert sums["exact"] > 0.98 * sums["n"]
    assert sums["f1"] > 0.99 * sums["n"]


def test_the_tokens_of_an_answer_hold_its_text(made_dataset, python_of):
    root = made_dataset("documentation_questions")
    asked = text_layouts.questions(str(root))["dev"]
    contexts = numbered.sequences(str(root), 8000, "dev.contexts")
    answers = numbered.array(str(root), 8000, "dev.answers")
    assert len(answers) == len(asked)
    rows = [contexts[context][first : last + 1].tolist() for context, first, last in answers]
    texts = decoded(python_of, root, 8000, rows)
    held = [one.context[one.begin : one.end] in text for one, text in zip(asked, texts, strict=True)]
    assert sum(held) >= 0.98 * len(held)


def test_most_words_of_the_catalogues_are_listed_and_the_lists_are_such_as_are_read(made_dataset):
    root = str(made_dataset("message_catalogues"))
    for side, words in zip(("source", "target"), text_layouts.word_lists(root), strict=True):
        assert len(words) > 1000
        tokens = numbered.sequences(root, numbered.WORDS, f"train.{side}").tokens
        assert tokens.max() == numbered.UNKNOWN + len(words)
        assert 0 < (tokens == numbered.UNKNOWN).mean() < 0.15


READ = {
    "documentation": lambda root, vocabulary: running_text.batches(root, 4, 64, vocabulary, 1, 0, 1),
    "documentation_articles": lambda root, vocabulary: articles.batches(root, 4, 64, vocabulary, 1, 0, 1),
    "documentation_questions": lambda root, vocabulary: questions.batches(root, 4, 64, vocabulary, 1, 0, 1),
    "message_catalogues": lambda root, vocabulary: sentence_pairs.batches(root, 4, 64, vocabulary, 1, 0, 1),
}


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("vocabulary", [180, 8000])
def test_every_dataset_gives_batches_within_its_vocabulary(made_dataset, folder, vocabulary):
    batches = list(itertools.islice(READ[folder](str(made_dataset(folder)), vocabulary + 11), 20))
    tokens = [array for batch in batches for one in batch for array in one if isinstance(array, numpy.ndarray)]
    assert max(int(array.max()) for array in tokens) < vocabulary
    # Few of them are unknown, even with few hundred sub-words.
    assert numpy.mean([(array == numbered.UNKNOWN).mean() for array in tokens]) < 0.05
