"""The layouts of texts: what is read of them, and that what is missing or damaged is named."""

import json

import pytest

from suites.datasets import text_layouts
from suites.datasets.documentation import prose
from suites.datasets.documentation_questions import prepare as gaps
from suites.datasets.message_catalogues import prepare as catalogues
from suites.datasets.text_layouts import DatasetError


def a_folder(root, files):
    for name, content in files.items():
        if content is None:
            continue
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(root)


SQUAD = {
    "version": "1.1",
    "data": [
        {
            "title": "t",
            "paragraphs": [
                {
                    "context": "The sky is blue.",
                    "qas": [{"id": "1", "question": "How is it?", "answers": [{"text": "blue", "answer_start": 11}]}],
                }
            ],
        }
    ],
}
WIKIPEDIA = '<doc id="1" url="" title="A">\nA\n\nOne. Two.\nThree.\n</doc>\n'


def test_parallel_text_is_read_from_english_and_pairs_without_a_side_are_left_out(tmp_path):
    files = {
        "train.vi": "xin chào\n\nba\n",
        "train.en": "hello\ntwo\nthree\n",
        "tst2012.en": "a\n",
        "tst2012.vi": "b\n",
    }
    found = text_layouts.pairs(a_folder(tmp_path, files))
    assert found == {"train": [("hello", "xin chào"), ("three", "ba")], "tst2012": [("a", "b")]}


def test_documents_of_plain_text_are_parted_by_empty_lines(tmp_path):
    found = text_layouts.texts(a_folder(tmp_path, {"train.txt": "a\nb\n\n\nc\n", "valid.txt": "d"}))
    assert found == {"train": [["a", "b"], ["c"]], "valid": [["d"]]}


def test_articles_are_read_without_their_titles_with_splits_or_without(tmp_path):
    article = [["One. Two.", "Three."]]
    assert text_layouts.articles(a_folder(tmp_path / "a", {"AA/wiki_00": WIKIPEDIA})) == {"train": article}
    files = {"train/AA/wiki_00": WIKIPEDIA, "train/AB/wiki_00": WIKIPEDIA, "test/AA/wiki_00": WIKIPEDIA}
    assert text_layouts.articles(a_folder(tmp_path / "b", files)) == {"train": article * 2, "test": article}


def test_questions_know_where_their_answers_are(tmp_path):
    found = text_layouts.questions(a_folder(tmp_path, {"train-v1.1.json": json.dumps(SQUAD)}))
    assert found == {"train": [("The sky is blue.", "How is it?", 11, 15, ("blue",))]}


HEAD = "<unk>\n<s>\n</s>\n"
LISTS = {"train.en": "a\n", "train.vi": "c\n", "vocab.en": HEAD + "a\n", "vocab.vi": HEAD + "c\n"}
MOVED = json.dumps(SQUAD).replace('"answer_start": 11', '"answer_start": 12')


@pytest.mark.parametrize(
    ("read", "files", "told"),
    [
        (text_layouts.pairs, {}, "there is no train"),
        (text_layouts.pairs, {"train.en": "a\n"}, r"only train\.en"),
        (
            text_layouts.pairs,
            {"train.en": "a\nb\n", "train.vi": "c\n"},
            r"train\.en has 2 lines, and .*train\.vi has 1",
        ),
        (text_layouts.pairs, {"train.en": b"a\n\xff\n", "train.vi": "c\nd\n"}, r"train\.en: line 2 is no UTF-8"),
        (
            text_layouts.pairs,
            {"train.en": "a\n", "train.vi": "c\n", "tst2012.en": "a\n"},
            r"tst2012\.vi: No such file",
        ),
        (text_layouts.word_lists, LISTS | {"vocab.vi": None}, r"vocab\.vi: No such file"),
        (text_layouts.word_lists, LISTS | {"vocab.en": "a\nb\n"}, r"vocab\.en: line 1 to 3 of a word list are <unk>"),
        (text_layouts.word_lists, LISTS | {"vocab.vi": HEAD + "a\nb\na\n"}, r"vocab\.vi: line 6 is a again, as line 4"),
        (text_layouts.word_lists, LISTS | {"vocab.en": HEAD + "a\nb c\n"}, r"vocab\.en: line 5 holds several words"),
        (text_layouts.word_lists, LISTS | {"vocab.en": HEAD.encode() + b"\xff"}, r"vocab\.en: line 4 is no UTF-8"),
        (text_layouts.texts, {}, r"train\.txt: No such file"),
        (text_layouts.texts, {"train.txt": b"a\xe9b\n"}, r"train\.txt: line 1"),
        (text_layouts.articles, {}, "no files wiki_00"),
        (text_layouts.articles, {"AA/wiki_00": WIKIPEDIA[:-8]}, "wiki_00: it is cut off"),
        (text_layouts.articles, {"AA/wiki_00": "words"}, "wiki_00: .* holds no <doc> elements"),
        (text_layouts.questions, {}, r"no train-v1\.1\.json"),
        (text_layouts.questions, {"train-v1.1.json": json.dumps(SQUAD)[:-9]}, r"train-v1\.1\.json: it is not in SQuAD"),
        (text_layouts.questions, {"train-v1.1.json": '{"data": [{}]}'}, "KeyError: 'paragraphs'"),
        (text_layouts.questions, {"train-v1.1.json": MOVED}, "the answer to 1 is not where it says"),
    ],
)
def test_what_is_missing_or_damaged_is_named(tmp_path, read, files, told):
    (tmp_path / "data").mkdir()
    with pytest.raises(DatasetError, match=told):
        read(a_folder(tmp_path / "data", files))


def test_a_folder_that_is_not_there_is_named(tmp_path):
    for read in (text_layouts.pairs, text_layouts.texts, text_layouts.articles, text_layouts.questions):
        with pytest.raises(DatasetError, match="nowhere"):
            read(str(tmp_path / "nowhere"))


def test_prose_is_what_a_docstring_says_and_not_its_code_or_lists():
    text = """Compute the ``sum`` of all :func:`~numpy.add` elements along the given axis [1]_.

    Parameters
    ----------
    a : array_like
        Elements to sum, and there are very many of them in it.

    >>> this is code and not a sentence of any kind at all.

    short.
    """
    assert prose.paragraphs(text) == ["Compute the sum of all numpy.add elements along the given axis."]


def test_documents_are_in_one_split_each_and_most_of_them_train():
    documents = [prose.Document(f"module{number}", [f"text {number}"]) for number in range(1000)]
    parts = prose.splits(documents)
    assert sum(map(len, parts.values())) == 1000
    assert len(parts["train"]) > 850
    assert min(len(parts["valid"]), len(parts["test"])) > 30
    assert parts == prose.splits(list(reversed(documents))) | {
        name: [one for one in documents if one in found] for name, found in parts.items()
    }


def test_no_sentence_of_the_other_splits_is_trained_on():
    documents = [
        prose.Document(f"module{number}", [f"Own text {number}. Said again.", "Said by all. It is."])
        for number in range(300)
    ]
    kept = [paragraph for part in ("valid", "test") for one in prose.splits(documents)[part] for paragraph in one[1]]
    assert kept == []
    documents = [prose.Document(one.title, [f"{one.title} has this.", *one.paragraphs]) for one in documents]
    kept = [paragraph for part in ("valid", "test") for one in prose.splits(documents)[part] for paragraph in one[1]]
    assert len(kept) > 10
    assert all(paragraph.endswith("has this.") for paragraph in kept)


def test_sentences_that_are_nearly_alike_are_in_one_split_and_no_translation_of_a_test_is_trained_on(tmp_path):
    found = [(f"Sentence {number} here", f"câu {number}") for number in range(400)]
    found += [(f"sentence {number} here.", f"câu {number}!") for number in range(400)]
    found += [(f"Another {number} one", "một câu chung") for number in range(100)]
    catalogues.write(str(tmp_path), sorted(found))
    splits = text_layouts.pairs(str(tmp_path))
    assert sorted(splits) == ["train", "tst2012", "tst2013"]
    trained = {word.lower().strip(" .!") for pair in splits.pop("train") for word in pair}
    tested = [word.lower().strip(" .!") for pairs in splits.values() for pair in pairs for word in pair]
    assert len(tested) > 20
    assert trained.isdisjoint(tested)


def test_a_question_is_a_sentence_with_a_gap_and_the_answer_lies_there():
    context = "The quick brown fox jumps over the lazy dog every day. It is a short one. " * 1 + (
        "Another sentence that is long enough stands here for the sake of the test."
    )
    asked = gaps.questions(context, "some name")
    assert len(asked) == 2
    for one in asked:
        answer = one["answers"][0]
        assert context[answer["answer_start"] :].startswith(answer["text"])
        gapless = one["question"].replace("What is missing here: ", "").replace(gaps.GAP, answer["text"])
        assert gapless in context
    assert asked == gaps.questions(context, "some name")


@pytest.mark.parametrize(
    ("source", "target", "kept"),
    [
        ("a whole sentence", "một câu hoàn chỉnh", True),
        ("the same text", "the same text", False),
        ("two words", "hai chữ", False),
        ("word " * 81, "chữ " * 81, False),
    ],
)
def test_what_counts_as_a_sentence_of_a_catalogue(source, target, kept):
    assert catalogues.is_sentence(source, target) is kept


def test_a_machine_without_catalogues_or_apt_is_told_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(catalogues, "FOLDER", str(tmp_path / "none").lstrip("/"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit) as caught:
        catalogues.write_all(str(tmp_path))
    told = str(caught.value.code)
    assert "hold 0 sentences in English and Vietnamese, and 5000 are needed" in told
    assert "apt brought not all of the packages" in told
    assert "Install the packages bash, binutils-common, coreutils" in told


def test_a_catalogue_that_cannot_be_read_is_left_out(tmp_path):
    (tmp_path / "broken.mo").write_bytes(b"no catalogue")
    assert catalogues.pairs([str(tmp_path / "broken.mo"), str(tmp_path / "missing.mo")]) == set()
