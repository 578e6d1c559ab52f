"""The layouts in which texts are handed round, read as they are. Standard library only.

parallel-text  ``<split>.<language>``, a sentence a line, two languages: IWSLT15 (train, tst2012, tst2013) and WMT; of
               IWSLT15 also ``vocab.<language>``, a word a line
text           ``<split>.txt``, a paragraph a line, an empty line between documents
wikipedia      files of ``<doc>`` elements below ``<split>/``, or below the root, which is then train: WikiExtractor's
squad          ``train-v1.1.json``, ``dev-v1.1.json``: SQuAD 1.1
"""

import collections
import json
import os
import re
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

_SENTENCE_END = re.compile(r"(?<=[.!?]) (?=[A-Z\"'])")

# Those that are read, where they are there.
SPLITS = ("train", "valid", "dev", "test", "tst2012", "tst2013", "newstest2013", "newstest2014")


# The first lines of a word list.
NO_WORDS = ("<unk>", "<s>", "</s>")


class DatasetError(Exception):
    """A file is missing or damaged; the message names it."""


class Pair(NamedTuple):
    source: str
    target: str


class Question(NamedTuple):
    """``begin`` and ``end``: the first answer's characters within the context. ``answers``: the texts of all of them,
    which several people have given."""

    context: str
    question: str
    begin: int
    end: int
    answers: Tuple[str, ...]


def sentences(paragraph: str) -> List[str]:
    """Return the sentences of a paragraph: it is cut after a full stop before a capital letter."""
    return _SENTENCE_END.split(paragraph)


def lines(path: str) -> List[str]:
    """Return the lines of a text file.

    Raises:
        DatasetError: it cannot be read, or is no UTF-8; the message has the line's number.
    """
    try:
        with open(path, "rb") as file:
            found = file.read().split(b"\n")
    except OSError as error:
        raise DatasetError("%s: %s" % (path, error.strerror))
    if found and not found[-1]:
        found.pop()
    texts = []
    for number, line in enumerate(found, 1):
        try:
            texts.append(line.decode("utf-8").strip())
        except UnicodeDecodeError as error:
            raise DatasetError("%s: line %d is no UTF-8: %s" % (path, number, error))
    return texts


def pairs(root: str) -> Dict[str, List[Pair]]:
    """Return the sentence pairs of each split; pairs of which one side is empty are left out. English is the source.

    Raises:
        DatasetError: a file is missing or damaged, or the two of a split have unequal numbers of lines.
    """
    found = {}
    source, target = languages(root)
    for split in [name for name in SPLITS if os.path.exists(os.path.join(root, "%s.%s" % (name, source)))]:
        paths = [os.path.join(root, "%s.%s" % (split, language)) for language in (source, target)]
        sides = [lines(path) for path in paths]
        if len(sides[0]) != len(sides[1]):
            raise DatasetError("%s has %d lines, and %s has %d" % (paths[0], len(sides[0]), paths[1], len(sides[1])))
        found[split] = [Pair(*sides) for sides in zip(*sides) if all(sides)]
    return found


def word_lists(root: str) -> Optional[Tuple[List[str], List[str]]]:
    """Return the words that ``vocab.<language>`` lists, those of the source and those of the target; None where there
    is neither file.

    Raises:
        DatasetError: one is missing or damaged; the message has the line's number.
    """
    source, target = (os.path.join(root, "vocab." + language) for language in languages(root))
    if not os.path.exists(source) and not os.path.exists(target):
        return None
    return _words(source), _words(target)


def _words(path: str) -> List[str]:
    found = lines(path)
    if tuple(found[: len(NO_WORDS)]) != NO_WORDS:
        raise DatasetError("%s: line 1 to 3 of a word list are %s" % (path, ", ".join(NO_WORDS)))
    seen = collections.OrderedDict()  # type: Dict[str, int]
    for number, word in enumerate(found, 1):
        if " " in word:
            raise DatasetError("%s: line %d holds several words" % (path, number))
        if word in seen:
            raise DatasetError("%s: line %d is %s again, as line %d" % (path, number, word, seen[word]))
        # Texts from the web have words that are spaces of another kind, and lists have them too.
        if word:
            seen[word] = number
    return list(seen)[len(NO_WORDS) :]


def languages(root: str) -> Tuple[str, str]:
    """Return the two languages of ``train.*``, English first.

    Raises:
        DatasetError: there are not two.
    """
    names = [match.group(1) for match in map(re.compile(r"train\.([a-z]{2,3})$").match, _names(root)) if match]
    if len(names) != 2:
        what = "only train.%s" % names[0] if names else "no train.* at all" if not names else ", ".join(names)
        raise DatasetError("%s: parallel text is train.en and train.vi, say; there is %s" % (root, what))
    first, second = sorted(names, key=lambda name: (name != "en", name))
    return first, second


def _names(root: str) -> List[str]:
    try:
        return sorted(os.listdir(root))
    except OSError as error:
        raise DatasetError("%s: %s" % (root, error.strerror))


def texts(root: str) -> Dict[str, List[List[str]]]:
    """Return the documents of each split, each a list of paragraphs.

    Raises:
        DatasetError: there is no train.txt, or a file is damaged.
    """
    found = {}
    for split in [name for name in SPLITS if name + ".txt" in _names(root)] or ["train"]:
        documents = [[]]  # type: List[List[str]]
        for line in lines(os.path.join(root, split + ".txt")):
            if line:
                documents[-1].append(line)
            elif documents[-1]:
                documents.append([])
        found[split] = [document for document in documents if document]
    return found


_DOC = re.compile(r"<doc\b[^>]*>\n(.*?)</doc>", re.S)


def articles(root: str) -> Dict[str, List[List[str]]]:
    """Return the articles of each split, each a list of paragraphs without the title.

    Raises:
        DatasetError: there are no files of ``<doc>`` elements, or one has none.
    """
    splits = [name for name in SPLITS if name in _names(root)]
    folders = {name: os.path.join(root, name) for name in splits} or {"train": root}
    return {
        split: [article for path in _wiki_files(folder) for article in _docs(path)] for split, folder in folders.items()
    }


def _wiki_files(folder: str) -> List[str]:
    found = [
        os.path.join(parent, name) for parent, _, names in os.walk(folder) for name in names if name.startswith("wiki_")
    ]
    if not found:
        raise DatasetError("%s: there are no files wiki_00 and so on below it" % folder)
    return sorted(found)


def _docs(path: str) -> List[List[str]]:
    text = "\n".join(lines(path))
    if text.count("<doc ") != text.count("</doc>") or "<doc " not in text:
        raise DatasetError("%s: it is cut off, or holds no <doc> elements" % path)
    bodies = (match.group(1).split("\n")[1:] for match in _DOC.finditer(text))
    found = [[paragraph for paragraph in body if paragraph] for body in bodies]
    return [paragraphs for paragraphs in found if paragraphs]


def questions(root: str) -> Dict[str, List[Question]]:
    """Return the questions of each split.

    Raises:
        DatasetError: there is no train-v1.1.json, a file is no such JSON, or an answer is not where it says.
    """
    names = [name for name in _names(root) if re.match(r"(train|dev)-v1\.1\.json$", name)]
    if "train-v1.1.json" not in names:
        raise DatasetError("%s: there is no train-v1.1.json" % root)
    return {name.split("-")[0]: list(_questions(os.path.join(root, name))) for name in names}


def _questions(path: str) -> Iterator[Question]:
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)["data"]
        for paragraph in (paragraph for article in data for paragraph in article["paragraphs"]):
            for asked in paragraph["qas"]:
                answer = asked["answers"][0]
                begin = answer["answer_start"]
                if paragraph["context"][begin : begin + len(answer["text"])] != answer["text"]:
                    raise DatasetError("%s: the answer to %s is not where it says" % (path, asked["id"]))
                end, answers = begin + len(answer["text"]), tuple(one["text"] for one in asked["answers"])
                yield Question(paragraph["context"], asked["question"], begin, end, answers)
    except OSError as error:
        raise DatasetError("%s: %s" % (path, error.strerror))
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise DatasetError("%s: it is not in SQuAD 1.1's layout: %s: %s" % (path, type(error).__name__, error))
