"""Texts as numbers: what is read, in which order, and what happens to files that are missing or damaged."""

import itertools
import os

import numpy
import pytest

from suites.datasets import (
    articles,
    judged,
    numbered,
    pieces,
    questions,
    running_text,
    sentence_pairs,
    text_layouts,
    word_numbers,
)
from workers.trainer.base.failure import TrainerError

VOCABULARY = 50


def written(root, **arrays):
    """A prepared dataset with these arrays; a list of lists becomes sequences. A name's dots are underscores."""
    folder = root / "numbers" / str(VOCABULARY)
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in arrays.items():
        path = folder / name.replace("_", ".")
        if value and isinstance(value[0], list) and not name.endswith(("answers", "characters")):
            numpy.save(f"{path}.ends.npy", numpy.cumsum([len(one) for one in value]))
            value = [token for one in value for token in one]
        numpy.save(f"{path}.npy", numpy.array(value))
    return str(root)


def some_pairs(root, lengths):
    """Pairs of these lengths; each token of a pair is the pair's number."""
    rows = [[number] * length for number, length in enumerate(lengths)]
    return written(root, train_source=rows, train_target=[row + row[:1] for row in rows])


def first(batches, count):
    return list(itertools.islice(batches, count))


def test_sequences_are_what_was_written(tmp_path):
    root = written(tmp_path, train_text=[[8, 9], [7], [10, 11, 12]])
    found = numbered.sequences(root, VOCABULARY, "train.text")
    assert [found[number].tolist() for number in range(len(found))] == [[8, 9], [7], [10, 11, 12]]
    assert found.lengths.tolist() == [2, 1, 3]


def test_the_largest_vocabulary_that_the_model_has_room_for_is_taken(tmp_path):
    for size in (200, 8000, 37000):
        (tmp_path / "numbers" / str(size)).mkdir(parents=True)
    assert [numbered.vocabulary_of(str(tmp_path), most) for most in (200, 211, 8000, 36999, 50257)] == [
        200,
        200,
        8000,
        8000,
        37000,
    ]
    with pytest.raises(
        TrainerError, match=r"vocabularies of 200, 8000, 37000 tokens, and the model has places for 199"
    ):
        numbered.vocabulary_of(str(tmp_path), 199)


def test_a_bucket_has_what_is_alike_and_an_epoch_everything_once(tmp_path):
    lengths = [number % 40 + 1 for number in range(1280)]
    batches = first(numbered.bucketed(lengths, 8, 1, 0, 1), 160)
    assert sorted(number for batch in batches for number in batch) == list(range(1280))
    spread = [max(lengths[at] for at in batch) - min(lengths[at] for at in batch) for batch in batches]
    assert sum(spread) / len(spread) < 2
    # In no order of lengths: one that grows would look like a drift.
    means = [sum(lengths[at] for at in batch) / 8 for batch in batches]
    assert abs(numpy.corrcoef(means, range(len(means)))[0, 1]) < 0.2


def test_the_ranks_of_a_step_have_different_pairs_of_like_lengths(tmp_path):
    lengths = [number % 50 + 1 for number in range(800)]
    ranks = [first(numbered.bucketed(lengths, 4, 3, rank, 2), 100) for rank in range(2)]
    assert not {at for batch in ranks[0] for at in batch} & {at for batch in ranks[1] for at in batch}
    apart = [abs(lengths[one[0]] - lengths[other[0]]) for one, other in zip(*ranks, strict=True)]
    assert max(apart) <= 3


def test_the_order_follows_the_seed():
    lengths = list(range(1, 100))
    orders = [first(numbered.bucketed(lengths, 4, seed, 0, 1), 30) for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]


def test_too_few_pairs_for_a_batch_are_refused(tmp_path):
    with pytest.raises(TrainerError, match="10 samples, fewer than one batch of 16"):
        next(sentence_pairs.batches(some_pairs(tmp_path, [3] * 10), 8, 20, VOCABULARY, 1, 0, 2))


def test_pairs_stay_pairs_and_long_ones_are_left_out(tmp_path):
    root = some_pairs(tmp_path, [3, 30, 5, 4, 6, 19])
    batches = first(sentence_pairs.batches(root, 2, 20, VOCABULARY, 1, 0, 1), 20)
    pairs = [pair for batch in batches for pair in batch]
    assert {int(source[0]) for source, _ in pairs} == {0, 2, 3, 4, 5}
    assert all(set(source.tolist()) == set(target.tolist()) for source, target in pairs)


def test_every_piece_of_running_text_comes_once_in_an_epoch_with_what_follows(tmp_path):
    root = written(tmp_path, train_text=[list(range(7, 40)), list(range(40, 50))])
    batches = first(running_text.batches(root, 2, 6, VOCABULARY, 1, 0, 1), 7)
    pieces = [tokens.tolist() for tokens_NT, _ in batches for tokens in tokens_NT]
    assert sorted(map(tuple, pieces[:7])) == [tuple(range(at, at + 6)) for at in range(7, 44, 6)]
    assert all((following_NT == tokens_NT + 1).all() for tokens_NT, following_NT in batches)
    assert batches[0][0].dtype == numpy.int64


def test_text_too_short_for_one_piece_is_refused_with_the_file(tmp_path):
    root = written(tmp_path, train_text=[[7, 8, 9]])
    with pytest.raises(TrainerError, match=r"train\.text\.npy holds 3 tokens, and a piece takes 7"):
        next(running_text.batches(root, 2, 6, VOCABULARY, 1, 0, 1))


def some_articles(root):
    """Twenty articles of ten sentences of five tokens; a token tells article and place."""
    sentences = [[article * 100 + at * 5 + token for token in range(5)] for article in range(20) for at in range(10)]
    return written(root, train_sentences=sentences, train_documents=list(range(10, 201, 10)))


def test_half_of_the_second_segments_follow_and_the_others_are_from_elsewhere(tmp_path):
    batches = first(articles.batches(some_articles(tmp_path), 10, 40, VOCABULARY, 1, 0, 1), 100)
    drawn = [one for batch in batches for one in batch]
    for one in drawn:
        assert 0 < len(one.first) + len(one.second) <= 40
        if one.follows:
            # The last sentence of the first may have been cut.
            assert one.second[0] == one.first[-1] // 5 * 5 + 5
        assert (one.first[0] // 100 == one.second[0] // 100) == one.follows
    # Half of those behind which the article goes on.
    assert 0.25 < sum(one.follows for one in drawn) / len(drawn) < 0.5
    assert len({one.draw for one in drawn}) == len(drawn)


def test_the_answer_stays_where_it_is_in_a_context_that_is_cut():
    context = numpy.arange(100, 300)
    for at in (0, 3, 50, 120, 190, 197):
        asked = questions.fitted(context, numpy.arange(7, 17), at, at + 2, 60)
        assert len(asked.context) + len(asked.question) == 60
        assert asked.context[asked.first : asked.last + 1].tolist() == [100 + at, 101 + at, 102 + at]


def test_a_short_context_is_left_as_it_is():
    asked = questions.fitted(numpy.arange(100, 120), numpy.arange(7, 17), 4, 6, 60)
    assert (len(asked.context), asked.first, asked.last) == (20, 4, 6)


def spelled(root):
    """The vocabulary's pieces: token 5 is " t5", token 6 is "t6", and so on by turns."""
    pieces.write(root, VOCABULARY, [("\u2581" if number % 2 else "") + f"t{number}" for number in range(VOCABULARY)])
    return root


def test_tokens_become_text_again_and_what_is_no_text_does_not(tmp_path):
    known = pieces.read(spelled(some_pairs(tmp_path, [1])), VOCABULARY)
    assert known.text([numbered.BEGIN, 5, 6, 7, numbered.END, numbered.PADDING]) == "t5t6 t7"
    assert known.text([6, numbered.UNKNOWN, 6]) == "t6 \u2047 t6"
    # A network may have places for more tokens than the vocabulary has.
    assert known.text([5, VOCABULARY]) == "t5 \u2047 "


def test_a_network_is_judged_by_the_split_that_the_literature_reports(tmp_path):
    root = some_pairs(tmp_path, [1])
    with pytest.raises(TrainerError, match=r"numbers/50 holds nothing to judge a network by: .* \(newstest2014"):
        numbered.judged_split(root, VOCABULARY, "source")
    for split in ("dev", "tst2012", "tst2013"):
        written(tmp_path, **{f"{split}_source": [[7]]})
    assert numbered.judged_split(root, VOCABULARY, "source") == "tst2013"


def test_sentences_are_judged_whole_and_once_by_all_ranks_with_their_own_references(tmp_path):
    root = spelled(some_pairs(tmp_path, [2, 3]))
    rows = [[6 + number] * length for number, length in enumerate((9, 2, 40, 4))]
    written(tmp_path, tst2013_source=rows, tst2013_target=rows)
    judged.write(root, "tst2013", ["nine", "two", "forty", "four"])
    ranks = [sentence_pairs.judged(root, VOCABULARY, rank, 2) for rank in range(2)]
    told = [[(len(one), said) for (one, _), said in zip(rank.pairs, rank.references, strict=True)] for rank in ranks]
    assert told == [[(2, "two"), (9, "nine")], [(4, "four"), (40, "forty")]]
    # Trained sentences have no reference but their numbers.
    assert sentence_pairs.judged(root, VOCABULARY, 0, 1, "train").references == ["", ""]
    judged.write(root, "tst2013", ["nine"])
    with pytest.raises(TrainerError, match="4 sentences of tst2013, and 1 references"):
        sentence_pairs.judged(root, VOCABULARY, 0, 1)


def test_words_are_numbered_by_their_frequency_and_a_small_model_does_not_know_the_rare_ones(tmp_path):
    pairs = {"train": [("a b b c", "d e e"), ("b c z", "e f")], "tst2013": [("c a", "f d e")]}
    for split, lines in pairs.items():
        for language, sentences in zip(("en", "vi"), zip(*lines, strict=True), strict=True):
            (tmp_path / f"{split}.{language}").write_text("".join(one + "\n" for one in sentences))
    assert text_layouts.word_lists(str(tmp_path)) is None
    with pytest.raises(TrainerError, match=r"no numbers of words: .* needs vocab\.en and vocab\.vi"):
        sentence_pairs.batches(str(tmp_path), 2, 9, sentence_pairs.Words(8, 7), 1, 0, 1)
    for language, words in (("en", ["z b b", "a b c c"]), ("vi", ["d e f f"])):
        lines = [*text_layouts.NO_WORDS, *word_numbers.listed(words, 1)[3:]]
        (tmp_path / f"vocab.{language}").write_text("\n".join(lines))
    word_numbers.write(str(tmp_path), text_layouts.pairs(str(tmp_path)), str(tmp_path))
    # b, c, a, z of which the model does not know the last, and e, f, d; z is listed, and comes once.
    (batch,) = first(sentence_pairs.batches(str(tmp_path), 2, 9, sentence_pairs.Words(8, 7), 1, 0, 1), 1)
    found = sorted((source.tolist(), target.tolist()) for source, target in batch)
    assert found == [([5, 6, 4], [5, 6]), ([7, 5, 5, 6], [4, 5, 5])]
    judged.write(str(tmp_path), "tst2013", ["f d e"])
    (one,) = [sentence_pairs.judged(str(tmp_path), sentence_pairs.Words(9, 8), 0, 1)]
    ((source, target),) = one.pairs
    assert (source.tolist(), one.pieces.text(target), one.references) == ([6, 7], "f d e", ["f d e"])


def some_questions(root, context, characters):
    """One question about a context, as the split dev."""
    return written(
        root,
        dev_contexts=[[40], context],
        dev_questions=[[7] * 6],
        dev_answers=[[1, 3, 4]],
        dev_characters=[(0, 3), *characters],
    )


def test_the_windows_of_a_question_cover_its_context_and_give_back_its_text(tmp_path):
    context = list(range(10, 40))
    root = some_questions(tmp_path, context, [(4 * at, 4 * at + 4) for at in range(30)])
    words = "".join(f" {at:03}" for at in range(30))
    judged.write(root, "dev", {"contexts": ["one", words], "answers": [["003 004", "004"]]})
    found = questions.judged(root, VOCABULARY, 0, 1)
    windows = found.windows(0, 16)
    assert [(one.begin, len(one.question) + len(one.context)) for one in windows] == [
        (begin, 16) for begin in (0, 3, 6, 9, 12, 15, 18, 20)
    ]
    assert all(one.context.tolist() == context[one.begin : one.begin + 10] for one in windows)
    assert [one.begin for one in found.windows(0, 100)] == [0]
    assert (found.text(0, 3, 4), found.gold(0)) == ("003 004", ["003 004", "004"])
    assert list(questions.judged(root, VOCABULARY, 1, 2).numbers) == []


def test_texts_that_do_not_fit_the_questions_are_named(tmp_path):
    root = some_questions(tmp_path, [10, 11], [(0, 1), (1, 2)])
    judged.write(root, "dev", {"contexts": ["one"], "answers": [["a"]]})
    with pytest.raises(TrainerError, match=r"texts/dev\.json: it does not fit the questions"):
        questions.judged(root, VOCABULARY, 0, 1)
    numpy.save(f"{tmp_path}/numbers/50/dev.characters.npy", numpy.zeros((2, 2)))
    with pytest.raises(TrainerError, match=r"dev\.characters\.npy: it does not fit the questions"):
        questions.judged(root, VOCABULARY, 0, 1)


def test_running_text_is_judged_piece_by_piece_by_all_ranks_together(tmp_path):
    root = written(tmp_path, test_text=[list(range(7, 40))])
    ranks = [list(running_text.judged(root, 6, VOCABULARY, rank, 2)) for rank in range(2)]
    assert [tokens[0, 0] for rank in ranks for tokens, _ in rank] == [7, 19, 31, 13, 25]
    assert all((after == tokens + 1).all() for rank in ranks for tokens, after in rank)


def test_pairs_of_texts_are_judged_in_the_order_of_the_text_the_same_each_time(tmp_path):
    root = some_articles(tmp_path)
    os.rename(f"{root}/numbers/50/train.sentences.npy", f"{root}/numbers/50/test.sentences.npy")
    for name in ("sentences.ends", "documents"):
        os.rename(f"{root}/numbers/50/train.{name}.npy", f"{root}/numbers/50/test.{name}.npy")
    drawn, again = (list(articles.judged(root, 25, VOCABULARY, 0, 1)) for _ in range(2))
    assert [one.first[0] for one in drawn] == [article * 100 + at for article in range(20) for at in (0, 25)]
    assert all((one.second == other.second).all() for one, other in zip(drawn, again, strict=True))
    others = [one.draw for rank in range(3) for one in articles.judged(root, 25, VOCABULARY, rank, 3)]
    assert sorted(others) == sorted(one.draw for one in drawn)


READERS = {
    "train.text": lambda root: running_text.batches(root, 1, 2, VOCABULARY, 1, 0, 1),
    "train.source": lambda root: sentence_pairs.batches(root, 1, 9, VOCABULARY, 1, 0, 1),
    "train.target": lambda root: sentence_pairs.batches(root, 1, 9, VOCABULARY, 1, 0, 1),
    "train.sentences": lambda root: articles.batches(root, 1, 9, VOCABULARY, 1, 0, 1),
    "train.documents": lambda root: articles.batches(root, 1, 9, VOCABULARY, 1, 0, 1),
    "train.contexts": lambda root: questions.batches(root, 1, 9, VOCABULARY, 1, 0, 1),
    "train.answers": lambda root: questions.batches(root, 1, 9, VOCABULARY, 1, 0, 1),
}


@pytest.fixture
def whole(tmp_path):
    rows = [[7, 8, 9, 10], [11, 12]]
    return written(
        tmp_path,
        train_text=rows,
        train_source=rows,
        train_target=rows,
        train_sentences=rows,
        train_documents=[1, 2],
        train_contexts=rows,
        train_questions=rows,
        train_answers=[[0, 1, 2], [1, 0, 0]],
    )


@pytest.mark.parametrize("name", READERS)
def test_whole_files_are_read(name, whole):
    next(READERS[name](whole))


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("damage", ["missing", "cut off", "no array", "shorter", "no dataset"])
def test_a_missing_or_damaged_file_is_named(name, damage, whole):
    path = numbered.path_of(whole, VOCABULARY, name)
    if damage == "missing":
        os.remove(path)
    elif damage == "no dataset":
        whole, path = whole + "/nowhere", whole + "/nowhere"
    else:
        with open(path, "rb") as file:
            data = file.read()
        shorter = numpy.load(path)[:-1]
        with open(path, "wb") as file:
            file.write(data[:-4] if damage == "cut off" else b"no array" if damage == "no array" else b"")
        if damage == "shorter":
            numpy.save(path, shorter)
    with pytest.raises(TrainerError) as caught:
        next(READERS[name](whole))
    assert caught.value.kind == "setup_failed"
    assert path in str(caught.value)


def test_rows_are_cut_and_filled_up():
    assert numbered.padded([[7, 8, 9], [7]], 2).tolist() == [[7, 8], [7, 0]]
