"""What trainers read of a prepared dataset of utterances: samples and characters as numbers, in the seed's order.

The order is decided by the seed alone and is the same in every framework; samples are mapped into memory.
"""

import itertools
from typing import Iterator, List, Optional, Tuple

from suites.datasets import numbered
from suites.datasets.numbered import CHARACTERS
from suites.datasets.utterances import spectrogram
from workers.trainer.base.failure import TrainerError
from workers.trainer.base.signatures import Array

# int16 samples, and the numbers of the transcript's characters.
Utterance = Tuple[Array, Array]
# The most frames and characters of what is trained on.
Fitting = Tuple[int, int]


def batches(
    root: Optional[str], count: int, fitting: Fitting, seed: int, rank: int, world_size: int
) -> Iterator[List[Utterance]]:
    """Return an endless iterator of lists of ``count`` utterances; those that are longer than ``fitting`` are left out.

    Lengths are mixed: all batches have one shape, and so about as much audio.

    Raises:
        TrainerError: ``setup_failed``, a file is missing or damaged (the message names it), or none is short enough.
    """
    audio, labels = _split(root, numbered.TRAIN)
    kept = _kept(root, audio, labels, fitting)
    order = (kept[number] for _, number in numbered.shuffled(len(kept), seed, rank, world_size))
    taken = iter(lambda: list(itertools.islice(order, count)), None)
    return ([(audio[number], labels[number]) for number in numbers] for numbers in taken)


def epoch_samples(root: Optional[str], fitting: Fitting) -> int:
    """Return how many utterances an epoch of ``batches`` has, all ranks together.

    Raises:
        TrainerError: as ``batches``.
    """
    audio, labels = _split(root, numbered.TRAIN)
    return len(_kept(root, audio, labels, fitting))


def judged(root: Optional[str]) -> List[Utterance]:
    """Return the utterances that a network is judged by, the short ones first.

    Raises:
        TrainerError: ``setup_failed``, a file is missing or damaged; the message names it.
    """
    audio, labels = _split(root, numbered.judged_split(str(root), CHARACTERS, "labels"))
    order = sorted(range(len(audio)), key=lambda number: (len(audio[number]), number))
    return [(audio[number], labels[number]) for number in order]


def _kept(root, audio, labels, fitting):
    import numpy

    most_samples = spectrogram.WINDOW + fitting[0] * spectrogram.HOP - 1
    kept = numpy.flatnonzero((audio.lengths <= most_samples) & (labels.lengths <= fitting[1]))
    if not len(kept):
        told = "%s: no utterance of train has %d frames and %d characters at most, as many as the model's size"
        raise TrainerError("setup_failed", told % ((root,) + tuple(fitting)))
    return kept


def _split(root, split):
    if root is None:
        raise TrainerError("setup_failed", "the dataset has not been prepared on this host")
    names = ["%s.%s" % (split, what) for what in ("audio", "labels")]
    audio, labels = (numbered.sequences(root, CHARACTERS, name) for name in names)
    if len(audio) != len(labels):
        paths = [numbered.path_of(root, CHARACTERS, name) for name in names]
        told = "%s and %s hold %d and %d utterances"
        raise TrainerError("setup_failed", told % (paths[0], paths[1], len(audio), len(labels)))
    return audio, labels
