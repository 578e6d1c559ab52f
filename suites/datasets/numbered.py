"""Reads the numbered texts of a prepared dataset (``suites.datasets.subwords`` writes them), and orders them.

The order is decided by the seed alone and is the same in every framework: only numpy and the standard library are used.
"""

import os
import random
from typing import Any, Iterator, List, Optional, Sequence, Tuple, Union

from workers.trainer.base.failure import TrainerError
from workers.trainer.base.signatures import Array

# The numbers of what is no text, alike in all vocabularies: BEGIN is BERT's [CLS] too, END its [SEP], MASK its [MASK].
# What is unknown counts as text, and comes last.
PADDING, BEGIN, END, MASK, UNKNOWN = range(5)

TRAIN = "train"
# What a network is judged by: of the splits of a dataset that are not trained on, the first of these. Those come first
# whose figures the literature reports (Vaswani et al., 2017: newstest2014; IWSLT15: tst2013; LibriSpeech: test-clean).
JUDGED = (
    "newstest2014",
    "tst2013",
    "test-clean",
    "test",
    "newstest2013",
    "tst2012",
    "valid",
    "dev-clean",
    "dev",
    "test-other",
    "dev-other",
)

# In place of the size of a vocabulary: whole words (``suites.datasets.word_numbers``); characters of what is said
# (``suites.datasets.utterances``).
WORDS = "words"
CHARACTERS = "characters"
Vocabulary = Union[int, str]

# Judgement: so many batches are drawn and then sorted by length together. More: less padding; fewer: more chance.
BATCHES_SORTED = 64


def folder_of(root: str, vocabulary: Vocabulary) -> str:
    return os.path.join(root, "numbers", str(vocabulary))


def path_of(root: str, vocabulary: Vocabulary, name: str) -> str:
    return os.path.join(folder_of(root, vocabulary), name + ".npy")


def ends_path(root: str, vocabulary: Vocabulary, name: str) -> str:
    return path_of(root, vocabulary, name + ".ends")


class Sequences(object):
    """Sequences of tokens, one behind the other in an array; ``ends`` has the place where each ends. Those from
    ``known`` on are taken as unknown."""

    def __init__(self, tokens: Array, ends: Array, known: Optional[int] = None) -> None:
        self.tokens = tokens
        self.ends = ends
        self._known = known

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, number: int) -> Array:
        import numpy

        found = self.tokens[self.ends[number - 1] if number else 0 : self.ends[number]]
        return found if self._known is None else numpy.where(found < self._known, found, UNKNOWN)

    @property
    def lengths(self) -> Array:
        import numpy

        return numpy.diff(self.ends, prepend=0)


def vocabulary_of(root: Optional[str], most: int) -> int:
    """Return the largest vocabulary of the dataset that has ``most`` tokens at most.

    Raises:
        TrainerError: ``setup_failed``, there is none, or no dataset; the message names the folder.
    """
    if root is None:
        raise TrainerError("setup_failed", "the dataset has not been prepared on this host")
    folder = os.path.join(root, "numbers")
    try:
        found = sorted(int(name) for name in os.listdir(folder) if name.isdigit())
    except OSError as error:
        raise TrainerError("setup_failed", "cannot read the dataset: %s" % error)
    fitting = [size for size in found if size <= most]
    if not fitting:
        raise TrainerError(
            "setup_failed",
            "%s has vocabularies of %s tokens, and the model has places for %d"
            % (folder, ", ".join(map(str, found)) or "no", most),
        )
    return fitting[-1]


def judged_split(root: str, vocabulary: Vocabulary, name: str) -> str:
    """Return the split that a network is judged by; ``name``: what each split of the layout has an array of.

    Raises:
        TrainerError: ``setup_failed``, the dataset has none but that which is trained on.
    """
    found = [split for split in JUDGED if os.path.exists(path_of(root, vocabulary, "%s.%s" % (split, name)))]
    if not found:
        told = "%s holds nothing to judge a network by: the dataset needs a split beside train (%s)"
        raise TrainerError("setup_failed", told % (folder_of(root, vocabulary), ", ".join(JUDGED)))
    return found[0]


def array(root: str, vocabulary: Vocabulary, name: str) -> Array:
    """Return an array of the dataset, mapped into memory: ranks of one host share its pages.

    Raises:
        TrainerError: ``setup_failed``, the file is missing or damaged; the message names it.
    """
    import numpy

    path = path_of(root, vocabulary, name)
    try:
        return numpy.load(path, mmap_mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise TrainerError("setup_failed", "cannot read %s: %s" % (path, error))


def sequences(root: str, vocabulary: Vocabulary, name: str, known: Optional[int] = None) -> Sequences:
    """Return the sequences ``name``; tokens from ``known`` on are unknown.

    Raises:
        TrainerError: ``setup_failed``, a file is missing or damaged; the message names it.
    """
    tokens, ends = array(root, vocabulary, name), array(root, vocabulary, name + ".ends")
    path = path_of(root, vocabulary, name)
    if not len(ends):
        raise TrainerError("setup_failed", "cannot read %s: it holds no text" % path)
    if ends[-1] != len(tokens):
        raise TrainerError(
            "setup_failed", "cannot read %s: it holds %d tokens and should hold %d" % (path, len(tokens), ends[-1])
        )
    return Sequences(tokens, ends, known)


def shuffled(count: int, seed: int, rank: int, world_size: int) -> Iterator[Tuple[int, int]]:
    """Yield (epoch, number below ``count``) without end: each epoch in a new order, dealt to the ranks in turn."""
    epoch = 0
    while True:
        order = list(range(count))
        random.Random("%s/%s" % (seed, epoch)).shuffle(order)
        for position in range(rank, count, world_size):
            yield epoch, order[position]
        epoch += 1


def bucketed(lengths: Sequence[int], count: int, seed: int, rank: int, world_size: int) -> Iterator[List[int]]:
    """Yield lists of ``count`` numbers of sequences without end, alike in length, so that little is padding.

    Each epoch is shuffled, sorted by length within ``BATCHES_SORTED`` batches, and the batches are shuffled. The ranks'
    batches of one step are neighbours in length, so that no rank waits long for another. What does not fill a batch of
    all ranks is left out of that epoch, another part in each.

    Raises:
        TrainerError: ``setup_failed``, there are fewer sequences than one batch of all ranks takes.
    """
    together = count * world_size
    if len(lengths) < together:
        raise TrainerError(
            "setup_failed", "the dataset has %d samples, fewer than one batch of %d" % (len(lengths), together)
        )
    epoch = 0
    while True:
        generator = random.Random("%s/%s" % (seed, epoch))
        order = list(range(len(lengths)))
        generator.shuffle(order)
        # Before they are sorted: else it would always be the longest that are left out.
        del order[len(order) - len(order) % together :]
        batches = []  # type: List[List[int]]
        for begin in range(0, len(order), together * BATCHES_SORTED):
            alike = sorted(order[begin : begin + together * BATCHES_SORTED], key=lambda number: lengths[number])
            batches += [alike[at : at + together] for at in range(0, len(alike), together)]
        generator.shuffle(batches)
        for batch in batches:
            yield batch[rank * count : (rank + 1) * count]
        epoch += 1


def padded(rows: Sequence[Any], length: int) -> Array:
    """Return int64 (rows, length): each row cut or filled up with ``PADDING``."""
    import numpy

    filled = numpy.full((len(rows), length), PADDING, numpy.int64)
    for number, row in enumerate(rows):
        kept = row[:length]
        filled[number, : len(kept)] = kept
    return filled
