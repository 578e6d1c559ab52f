"""The texts of a layout as numbers of sub-words: which arrays a prepared dataset of texts has.

parallel-text  ``<split>.source`` and ``<split>.target``: a sentence each, in the same order; of splits that are not
               trained on, ``texts/<split>.json`` has the targets as they were; ``suites.datasets.word_numbers``
               adds numbers of words
text           ``<split>.text``: a document each, with ``END`` behind it
wikipedia      ``<split>.sentences``, and in ``<split>.documents`` where among them each document ends
squad          ``<split>.contexts`` and ``<split>.questions``; ``<split>.answers`` has, of each question, the number of
               its context, and the first and the last token of the answer within that; ``<split>.characters`` has the
               begin and the end of each token of the contexts in their texts. ``texts/<split>.json`` has these texts
               and, of each question, all answers
"""

from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence

import numpy

from suites.datasets import judged, subwords, text_layouts, word_numbers
from suites.datasets.numbered import END, TRAIN, path_of
from suites.datasets.text_layouts import Pair, Question


class Way(NamedTuple):
    """``read`` returns the items of each split of a folder, ``texts`` those of an item, ``write`` stores numbers.
    ``keep`` returns what of a split's text translations or answers are judged by, if anything is; ``add`` writes what
    else there is of a folder, its items and the root."""

    read: Callable[[str], Dict[str, Any]]
    texts: Callable[[Any], Sequence[str]]
    write: Callable[[str, int, str, Sequence[Any], Any], None]
    keep: Callable[[str, Sequence[Any]], Any] = lambda split, items: None
    add: Callable[[str, Dict[str, Any], str], None] = lambda source, found, root: None


def number(layout: str, source: str, root: str, vocabularies: Sequence[int]) -> Dict[str, str]:
    """Write the texts of ``source`` as numbers below ``root``, once for each size of a vocabulary.

    Returns:
        the versions of what they depend on.

    Raises:
        SystemExit: a file is missing or damaged, or there is too little text; the message says which or why.
    """
    found = _read(layout, source, root)
    try:
        _number(layout, found, root, vocabularies)
    except subwords.TooLittleTextError as error:
        raise SystemExit(str(error))
    return subwords.versions()


def number_what_fits(layout: str, source: str, root: str, vocabularies: Sequence[int]) -> None:
    """As ``number``, with those of ``vocabularies`` (smallest first) that the texts have sub-words for, one at least.

    Raises:
        SystemExit: as ``number``.
    """
    found = _read(layout, source, root)
    for at, vocabulary in enumerate(vocabularies):
        try:
            _number(layout, found, root, [vocabulary])
        except subwords.TooLittleTextError as error:
            if not at:
                raise SystemExit(str(error))
            return


def _read(layout, source, root):
    """Return the items of each split; write what of them needs no vocabulary of sub-words."""
    try:
        found = WAYS[layout].read(source)
        WAYS[layout].add(source, found, root)
    except text_layouts.DatasetError as error:
        raise SystemExit(str(error))
    _keep(layout, found, root)
    return found


def _keep(layout, found, root):
    for split, items in found.items():
        kept = WAYS[layout].keep(split, items)
        if kept is not None:
            judged.write(root, split, kept)


def _number(layout, found, root, vocabularies):
    way = WAYS[layout]
    for vocabulary in vocabularies:
        processor = subwords.trained(_texts(found["train"], way), vocabulary)
        subwords.write_vocabulary(root, vocabulary, processor)
        for split, items in found.items():
            way.write(root, vocabulary, split, items, processor)


def _texts(items: Sequence[Any], way: Way) -> Iterator[str]:
    return (text for item in items for text in way.texts(item))


def _write_pairs(root: str, vocabulary: int, split: str, items: Sequence[Pair], processor: Any) -> None:
    for side in ("source", "target"):
        encoded = processor.encode([getattr(pair, side) for pair in items])
        subwords.write_sequences(root, vocabulary, "%s.%s" % (split, side), encoded)


def _write_text(root: str, vocabulary: int, split: str, items: Sequence[List[str]], processor: Any) -> None:
    encoded = processor.encode(["\n".join(paragraphs) for paragraphs in items])
    subwords.write_sequences(root, vocabulary, split + ".text", [tokens + [END] for tokens in encoded])


def _write_articles(root: str, vocabulary: int, split: str, items: Sequence[List[str]], processor: Any) -> None:
    documents = [[one for text in paragraphs for one in text_layouts.sentences(text)] for paragraphs in items]
    encoded = processor.encode([sentence for document in documents for sentence in document])
    subwords.write_sequences(root, vocabulary, split + ".sentences", encoded)
    ends = numpy.cumsum([len(document) for document in documents], dtype=numpy.int64)
    numpy.save(path_of(root, vocabulary, split + ".documents"), ends)


def _write_questions(root: str, vocabulary: int, split: str, items: Sequence[Question], processor: Any) -> None:
    numbers = _contexts(items)
    contexts = [subwords.placed(processor, text) for text in numbers]
    answers = [(numbers[item.context],) + _within(contexts[numbers[item.context]][1], item) for item in items]
    subwords.write_sequences(root, vocabulary, split + ".contexts", [tokens for tokens, _ in contexts])
    subwords.write_sequences(root, vocabulary, split + ".questions", processor.encode([one.question for one in items]))
    numpy.save(path_of(root, vocabulary, split + ".answers"), numpy.array(answers, numpy.int64).reshape(-1, 3))
    places = [place for _, found in contexts for place in found]
    numpy.save(path_of(root, vocabulary, split + ".characters"), numpy.array(places, numpy.int32).reshape(-1, 2))


def _contexts(items: Sequence[Question]) -> Dict[str, int]:
    """Return the number of each context: they are numbered as they come."""
    numbers = {}  # type: Dict[str, int]
    for item in items:
        numbers.setdefault(item.context, len(numbers))
    return numbers


def _targets(split: str, items: Sequence[Pair]) -> Optional[List[str]]:
    return None if split == TRAIN else [pair.target for pair in items]


def _asked(split: str, items: Sequence[Question]) -> Dict[str, Any]:
    return {"contexts": list(_contexts(items)), "answers": [item.answers for item in items]}


def _within(places, item):
    """Return the first and the last token that have a character of the answer."""
    touching = [at for at, (begin, end) in enumerate(places) if begin < item.end and end > item.begin]
    return touching[0], touching[-1]


WAYS = {
    "parallel-text": Way(text_layouts.pairs, lambda pair: pair, _write_pairs, _targets, word_numbers.write),
    "text": Way(text_layouts.texts, lambda paragraphs: paragraphs, _write_text),
    "wikipedia": Way(text_layouts.articles, lambda paragraphs: paragraphs, _write_articles),
    "squad": Way(text_layouts.questions, lambda item: (item.context, item.question), _write_questions, _asked),
}
