"""What networks on texts are evaluated with: all of a split once, in one order, whatever the batches are; and what is
counted of networks whose answers are known."""

import numpy
import pytest

from suites.datasets import judged, numbered, pieces, subwords
from suites.inputs import masked_pairs, prose, questions, sentence_pairs
from suites.quality import masked, perplexity, spans, translations
from tests.trainer_process import read_job
from workers.trainer.base.failure import TrainerError

VOCABULARY = 60


@pytest.fixture
def root(tmp_path):
    """A prepared dataset; what is not written is not there."""
    pieces_of = ["\u2581" + f"w{number}" for number in range(VOCABULARY)]
    numbered_folder = tmp_path / "numbers" / str(VOCABULARY)
    numbered_folder.mkdir(parents=True)
    pieces.write(str(tmp_path), VOCABULARY, pieces_of)
    return str(tmp_path)


def a_job(root, count):
    dataset = {"name": "it", "root": root, "loader": "running_text"}
    return read_job("gpt_2", "pytorch", dataset=dataset, per_device_batch_size=count)


def together(examples):
    """The arrays of all batches as one."""
    found = list(examples)
    return [numpy.concatenate(arrays) for arrays in zip(*((*one.inputs, *one.targets) for one in found), strict=True)]


def words(*numbers):
    return " ".join(f"w{number}" for number in numbers)


PAIRS = [([10, 11, 12], [20, 21, 22, 23]), ([13, 14], [24]), (list(range(30, 42)), [25, 26])]
SIZE = {"source_tokens": 8, "target_tokens": 7, "vocabulary": VOCABULARY}


@pytest.fixture
def sentences(root):
    subwords.write_sequences(root, VOCABULARY, "test.source", [source for source, _ in PAIRS])
    subwords.write_sequences(root, VOCABULARY, "test.target", [target for _, target in PAIRS])
    judged.write(root, "test", [words(*target) for _, target in PAIRS])
    return root


def translating(inputs):
    """What a network gives that knows the pairs by heart: by a source's first token, whatever stands behind it."""
    sources, _, targets = inputs
    right = {source[0]: [*target, numbered.END] for source, target in PAIRS}
    logits = numpy.zeros((*targets.shape, VOCABULARY), numpy.float32)
    for row, source in enumerate(sources):
        for place, token in enumerate((right[source[0]] + [numbered.END] * 9)[: targets.shape[1]]):
            logits[row, place, token] = 1.0
    return (logits,)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_sentence_is_translated_once_and_a_network_that_knows_them_has_a_bleu_of_100(sentences, count):
    found = list(sentence_pairs.evaluation(a_job(sentences, count), SIZE))
    assert [len(one.inputs[0]) for one in found] == {1: [1, 1, 1], 2: [2, 1], 5: [3]}[count]
    sums = [translations.sums(translating(one.inputs), one, translating) for one in found]
    # Two and one words have no four-grams: these are offered by the first sentence alone.
    assert sum(one["found_1"] for one in sums) == sum(one["words"] for one in sums) == 7
    assert sum(one["found_4"] for one in sums) == sum(one["offered_4"] for one in sums) == 1
    assert sum(one["n"] for one in sums) == 3
    assert translations.value({name: sum(one[name] for one in sums) for name in sums[0]}) == pytest.approx(100)


def test_a_source_without_places_is_cut_and_ends(sentences):
    sources, mask = together(sentence_pairs.evaluation(a_job(sentences, 5), SIZE))[:2]
    assert sources[2].tolist() == [*range(30, 37), numbered.END]
    assert mask.sum(axis=1).tolist() == [3, 4, 8]


def test_what_a_network_gives_for_right_translations_does_not_count(sentences):
    (one,) = sentence_pairs.evaluation(a_job(sentences, 5), SIZE)
    silent = (numpy.zeros((3, 7, VOCABULARY)) + (numpy.arange(VOCABULARY) == numbered.END),)
    sums = translations.sums(translating(one.inputs), one, lambda inputs: silent)
    assert (sums["words"], sums["reference_words"]) == (0, 7)


@pytest.mark.parametrize("count", [1, 3, 50])
def test_every_token_of_a_text_is_foreseen_once(root, count):
    subwords.write_sequences(root, VOCABULARY, "valid.text", [list(range(5, 30)), list(range(30, 50))])
    size = {"tokens": 6, "vocabulary": VOCABULARY}
    tokens, following = together(prose.evaluation(a_job(root, count), size))
    assert following.ravel().tolist() == list(range(6, 48))
    assert (tokens + 1 == following).all()


ARTICLES = [[list(range(5 + at, 11 + at)) for at in range(article, article + 5)] for article in range(6)]


@pytest.fixture
def articles(root):
    subwords.write_sequences(root, VOCABULARY, "test.sentences", [one for article in ARTICLES for one in article])
    numpy.save(numbered.path_of(root, VOCABULARY, "test.documents"), numpy.cumsum([5] * 6))
    return root


def test_what_is_hidden_depends_on_the_pair_alone(articles):
    size = {"tokens": 23, "predictions": 4, "vocabulary": VOCABULARY}
    alone, all_together = (together(masked_pairs.evaluation(a_job(articles, count), size)) for count in (1, 99))
    # The shares are those of a batch.
    for name, one, other in zip(masked_pairs.fields(size), alone, all_together, strict=True):
        assert ((one > 0) == (other > 0)).all() if name.name == "shares" else (one == other).all()
    assert all_together[5].sum() == pytest.approx(1.0)
    tokens, places, originals, shares = (all_together[at] for at in (0, 3, 4, 5))
    rows = numpy.arange(len(tokens))[:, None]
    assert (tokens[rows, places][shares > 0] == masked_pairs.HIDDEN).mean() > 0.6
    assert originals[shares > 0].min() >= 5


def test_hidden_tokens_count_and_places_that_hide_nothing_do_not(articles):
    size = {"tokens": 23, "predictions": 4, "vocabulary": VOCABULARY}
    (one,) = masked_pairs.evaluation(a_job(articles, 99), size)
    originals, shares = one.targets[:2]
    knowing = 50.0 * (numpy.arange(VOCABULARY) == originals[:, :, None])
    hidden = (shares > 0).sum()
    assert 0 < hidden < shares.size
    assert masked.sums((knowing,), one, None) == {"tokens": hidden, "nll": pytest.approx(0, abs=1e-6), "right": hidden}
    found = masked.sums((knowing * 0,), one, None)
    assert masked.value(found) == pytest.approx(VOCABULARY)
    both = perplexity.sums((knowing * 0,), one, None)
    assert both["tokens"] == shares.size > found["tokens"]


CONTEXTS = [list(range(10, 16)), list(range(10, 40))]
# (context, first, last): the last answer is far behind the first window.
ANSWERS = [(0, 1, 2), (1, 3, 3), (1, 26, 27)]


@pytest.fixture
def asked(root):
    subwords.write_sequences(root, VOCABULARY, "dev.contexts", CONTEXTS)
    subwords.write_sequences(root, VOCABULARY, "dev.questions", [[50 + number] * 3 for number in range(3)])
    numpy.save(numbered.path_of(root, VOCABULARY, "dev.answers"), numpy.array(ANSWERS))
    characters = [(4 * at, 4 * at + 3) for context in CONTEXTS for at in range(len(context))]
    numpy.save(numbered.path_of(root, VOCABULARY, "dev.characters"), numpy.array(characters))
    texts = [words(*context) for context in CONTEXTS]
    gold = [[words(*CONTEXTS[context][first : last + 1])] for context, first, last in ANSWERS]
    judged.write(root, "dev", {"contexts": texts, "answers": gold})
    return root


def finding(inputs):
    """What a network gives that knows the answers by the question, and sees them where they are."""
    tokens = inputs[0]
    logits = numpy.zeros((*tokens.shape, 2), numpy.float32)
    for row, line in enumerate(tokens):
        context, first, last = ANSWERS[line[1] - 50]
        for end, at in enumerate((first, last)):
            logits[row, :, end] = 5.0 * (line == CONTEXTS[context][at])
    return (logits,)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_an_answer_is_found_in_any_window_of_its_passage(asked, count):
    size = {"tokens": 18, "vocabulary": VOCABULARY}
    found = list(questions.evaluation(a_job(asked, count), size))
    # 18 - 3 marks - 3 of the question leave 12 of 30, and windows 4 apart.
    assert [len(one.references.rounds) for one in found] == {1: [1, 6, 6], 2: [6, 6], 3: [6]}[count]
    sums = [spans.sums(finding(one.inputs), one, finding) for one in found]
    totals = {name: sum(one[name] for one in sums) for name in sums[0]}
    assert totals == {"n": 3, "exact": 3, "f1": 3}
    assert spans.value({**totals, "f1": 1.5}) == 0.5
    begins, ends = together(found)[3:]
    # [CLS], the question and [SEP] stand before the passage; the last answer is not in the first window.
    assert list(zip(begins, ends, strict=True)) == [(6, 7), (8, 8), (0, 0)]


def test_a_network_that_finds_nothing_is_wrong(asked):
    (one,) = questions.evaluation(a_job(asked, 3), {"tokens": 18, "vocabulary": VOCABULARY})
    sums = spans.sums((numpy.zeros((3, 18, 2)),), one, lambda inputs: (numpy.zeros((3, 18, 2)),))
    assert sums == {"n": 3, "exact": 0, "f1": 0}


@pytest.mark.parametrize("module", [masked_pairs, prose, questions, sentence_pairs])
def test_what_is_random_has_no_quality_and_what_is_not_kept_apart_is_named(module, root):
    size = {**SIZE, "tokens": 20, "predictions": 3}
    with pytest.raises(TrainerError, match="synthetic data has no quality that could be evaluated"):
        next(iter(module.evaluation(read_job("gpt_2", "pytorch"), size)))
    with pytest.raises(
        TrainerError, match="holds nothing to judge a network by: the dataset needs a split beside train"
    ):
        next(iter(module.evaluation(a_job(root, 2), size)))
