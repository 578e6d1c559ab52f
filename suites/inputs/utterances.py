"""Batches of utterances with their transcripts for a job: synthetic ones, or those of a dataset.

A batch is (spectrograms_NFT, mask_NT, labels_NL, places_N): logarithmic spectrograms of F frequencies and T frames,
nothing behind the end of an utterance; 1 for frames and 0 for padding; the characters of the transcripts
(``suites.datasets.utterances.characters``), filled up with its ``BLANK``; and how many places a network that takes
every ``STRIDE``-th frame has of each utterance. The work is counted in seconds of audio that are no padding, and in
utterances.
"""

import itertools
from typing import Any, Callable, Iterator, List, Sequence, Tuple

from suites.datasets.utterances import characters, loading, spectrogram
from suites.inputs import Field, evaluated_root
from suites.inputs.texts import POOL
from suites.quality import Examples
from workers.trainer.base.job import Job
from workers.trainer.base.signatures import Array, Batch, Size, Work

# Judgement: how long synthetic utterances are, as parts of the longest, by a beta distribution: most of LibriSpeech's
# that are trained on have 12 to 16 seconds of 17, and every length below is there (Panayotov et al., "LibriSpeech: an
# ASR corpus based on public domain audio books", 2015; the mean of 12.6 s from memory).
LENGTH_ALPHA, LENGTH_BETA, LEAST_RATIO = 2.6, 0.9, 0.1
# Characters of a transcript for each frame, and the deviation of that number's logarithm: 9.4 million words in 960
# hours, each some 4.5 letters and a space.
CHARACTERS_PER_FRAME, CHARACTERS_DEVIATION = 0.15, 0.12


def fields(size: Size) -> List[Field]:
    frames = (size["frames"],)
    found = [Field("spectrograms", "numbers", (size["frequencies"],) + frames), Field("mask", "numbers", frames)]
    return found + [Field("labels", "tokens", (size["characters"],), True), Field("places", "label", (), True)]


def work(spectrograms_NFT: Array, mask_NT: Array, labels_NL: Array, places_N: Array) -> Work:
    # As whole numbers first: a sum in single precision of many frames would be rounded.
    frames = int((mask_NT > 0).sum())
    return {"audio_seconds": frames * spectrogram.HOP / float(spectrogram.RATE), "utterances": len(labels_NL)}


def batches(job: Job, rank: int, size: Size, framework: str, to_tensors: Callable[..., Any]) -> Iterator[Batch]:
    """See ``suites.inputs``."""
    count, seed = job.plan.per_device_batch_size, job.plan.seed
    if job.dataset is not None:
        fitting = (size["frames"], size["characters"])
        found = loading.batches(job.dataset.root, count, fitting, seed, rank, job.world_size)
        laid_out = (of_utterances(some, *fitting) for some in found)
        return ((to_tensors(*arrays), work(*arrays)) for arrays in laid_out)
    pool = synthetic(count, size, (seed, rank))
    return itertools.cycle([(to_tensors(*arrays), work(*arrays)) for arrays in pool])


def evaluation(job: Job, size: Size) -> Iterator[Examples]:
    """See ``suites.inputs``: whole utterances, by length; where one is longer than the size has frames, those of its
    batch are as many times that as it takes, so that there are few shapes. So are the characters.

    Raises:
        TrainerError: ``setup_failed``, there are none.
    """
    found = loading.judged(evaluated_root(job))
    for first in range(0, len(found), job.plan.per_device_batch_size):
        some = found[first : first + job.plan.per_device_batch_size]
        frames = _times(size["frames"], max(spectrogram.frames(len(samples)) for samples, _ in some))
        arrays = of_utterances(some, frames, _times(size["characters"], max(len(labels) for _, labels in some)))
        yield Examples(arrays[:2], arrays[2:])


def _times(usual, needed):
    """Return the multiple of ``usual`` that is ``needed`` or more."""
    return usual * -(-needed // usual)


def epoch_samples(job: Job, size: Size) -> int:
    """See ``suites.inputs``: the utterances that fit the size.

    Raises:
        TrainerError: ``setup_failed``, there is no dataset, or it cannot be read.
    """
    return loading.epoch_samples(evaluated_root(job), (size["frames"], size["characters"]))


def synthetic(count: int, size: Size, seed: Sequence[int]) -> Iterator[Tuple[Array, ...]]:
    """Yield ``POOL`` batches of random utterances with the spread of lengths of real ones, and as many characters.

    ``size`` has ``frames`` (T, the longest), ``frequencies``, ``characters`` (L) and ``symbols``. Numbers have mean 0
    and deviation 1, as those of a spectrogram have.
    """
    import numpy

    generator = numpy.random.RandomState(seed)
    for _ in range(POOL):
        ratios_N = numpy.maximum(LEAST_RATIO, generator.beta(LENGTH_ALPHA, LENGTH_BETA, count))
        frames_N = numpy.ceil(ratios_N * size["frames"]).astype(numpy.int64)
        rates_N = CHARACTERS_PER_FRAME * generator.lognormal(0.0, CHARACTERS_DEVIATION, count)
        lengths_N = numpy.clip(numpy.rint(rates_N * frames_N), 1, size["characters"]).astype(numpy.int64)
        drawn_NL = generator.randint(1, size["symbols"], (count, size["characters"]))
        within_NL = numpy.arange(size["characters"]) < lengths_N[:, None]
        # CTC wants a blank between equal neighbours: so many are never more places than there are.
        labels_NL = numpy.where(within_NL, drawn_NL, characters.BLANK).astype(numpy.int64)
        mask_NT = (numpy.arange(size["frames"]) < frames_N[:, None]).astype(numpy.float32)
        found_NFT = generator.standard_normal((count, size["frequencies"], size["frames"])).astype(numpy.float32)
        yield found_NFT * mask_NT[:, None], mask_NT, labels_NL, characters.places(frames_N)


def of_utterances(some: Sequence[Tuple[Array, Array]], frames: int, most: int) -> Tuple[Array, ...]:
    """Return the arrays of a batch of (samples, characters as numbers), with room for ``frames`` and ``most``."""
    import numpy

    spectrograms_NFT = numpy.zeros((len(some), spectrogram.FREQUENCIES, frames), numpy.float32)
    mask_NT = numpy.zeros((len(some), frames), numpy.float32)
    labels_NL = numpy.full((len(some), most), characters.BLANK, numpy.int64)
    for row, (samples, labels) in enumerate(some):
        found_FT = spectrogram.of(samples)
        spectrograms_NFT[row, :, : found_FT.shape[1]] = found_FT
        mask_NT[row, : found_FT.shape[1]] = 1.0
        labels_NL[row, : len(labels)] = labels
    return spectrograms_NFT, mask_NT, labels_NL, characters.places((mask_NT > 0).sum(axis=1))
