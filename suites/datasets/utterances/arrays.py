"""Writes the arrays of a prepared dataset of utterances: ``numbers/characters/<split>.audio`` (int16 samples, 16 kHz)
and ``<split>.labels`` (characters as numbers), one utterance behind the other.

Audio is decoded once, here, and spectrograms are computed while a network trains: so do the implementations that TBD
measures, which read WAV. Decoded, an hour takes 115 MB.
"""

import os
from typing import Any, Dict, Mapping, Sequence

import numpy

from suites.datasets import subwords
from suites.datasets.numbered import CHARACTERS, ends_path, folder_of, path_of
from suites.datasets.text_layouts import DatasetError
from suites.datasets.utterances import characters, layout


def write(source: str, root: str) -> Dict[str, str]:
    """Write the utterances of ``source``, in LibriSpeech's layout, below ``root``.

    Returns:
        the versions of what they depend on.

    Raises:
        SystemExit: a file is missing or damaged, or cannot be trained on; the message names it.
    """
    import soundfile

    try:
        write_splits(layout.utterances(source), root)
    except DatasetError as error:
        raise SystemExit(str(error))
    return {"soundfile": soundfile.__version__, "libsndfile": soundfile.__libsndfile_version__}


def write_splits(found: Mapping[str, Sequence[layout.Utterance]], root: str) -> None:
    """Write the utterances of each split.

    Raises:
        DatasetError: the audio of one cannot be decoded.
    """
    for split, utterances in found.items():
        ends = numpy.cumsum([one.samples for one in utterances], dtype=numpy.int64)
        audio = begun(root, split, ends[-1] if len(ends) else 0)
        for one, end in zip(utterances, ends):
            audio[end - one.samples : end] = layout.decoded(one)
        audio.flush()
        finished(root, split, ends, [one.text for one in utterances])


def begun(root: str, split: str, samples: int) -> Any:
    """Return the array of the audio of a split, on disk and without any yet: all of it need not fit into memory."""
    os.makedirs(folder_of(root, CHARACTERS), exist_ok=True)
    path = path_of(root, CHARACTERS, split + ".audio")
    return numpy.lib.format.open_memmap(path, mode="w+", dtype=numpy.int16, shape=(int(samples),))


def finished(root: str, split: str, ends: Any, texts: Sequence[str]) -> None:
    """Write where the audio of each utterance of a split ends, and what is said."""
    numpy.save(ends_path(root, CHARACTERS, split + ".audio"), ends)
    subwords.write_sequences(root, CHARACTERS, split + ".labels", [characters.numbers(text) for text in texts])
