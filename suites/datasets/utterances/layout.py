"""LibriSpeech's layout, read as it is, and what in it cannot be trained on.

    <split>/<speaker>/<chapter>/<speaker>-<chapter>.trans.txt    an utterance a line: its name, and what is said
    <split>/<speaker>/<chapter>/<speaker>-<chapter>-0000.flac    or .wav: 16 kHz, one channel

What is said is of A to Z, the apostrophe and the space, in upper case. All splits whose names begin with ``train`` are
trained on, as if they were one.

Source: Panayotov et al., "LibriSpeech: an ASR corpus based on public domain audio books", 2015, and the README.TXT that
comes with it.
"""

import os
import re
import wave
from typing import Dict, Iterator, List, NamedTuple

from suites.datasets.numbered import TRAIN
from suites.datasets.text_layouts import DatasetError, lines
from suites.datasets.utterances import characters, spectrogram
from workers.trainer.base.signatures import Array

SPLIT = re.compile(r"(train|dev|test)(-[a-z0-9-]+)?$")
TRANSCRIPTS = ".trans.txt"
AUDIO = (".flac", ".wav")
# Judgement: the longest utterance of LibriSpeech has 35 s. What is far longer is no utterance but a recording that was
# not cut.
MOST_S = 120
# libsndfile says so of a FLAC whose head has no length, or 0.
UNKNOWN = 2**62


class Utterance(NamedTuple):
    """``path``: of the audio; ``samples``: how many it has by its own head; ``text``: what is said."""

    path: str
    samples: int
    text: str


def utterances(root: str) -> Dict[str, List[Utterance]]:
    """Return the utterances of each split, by their names, by what their files' heads say; ``decoded`` has the rest.

    Raises:
        DatasetError: a file is missing, or an utterance cannot be trained on; the message has the file and its line.
    """
    try:
        names = sorted(name for name in os.listdir(root) if SPLIT.match(name))
    except OSError as error:
        raise DatasetError("%s: %s" % (root, error.strerror))
    found = {}  # type: Dict[str, List[Utterance]]
    for name in names:
        split = TRAIN if name.startswith(TRAIN) else name
        found.setdefault(split, []).extend(_of_split(os.path.join(root, name)))
    if TRAIN not in found:
        raise DatasetError("%s: there is no folder train or train-…: LibriSpeech has train-clean-100" % root)
    return found


def _of_split(folder: str) -> Iterator[Utterance]:
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(name for name in names if name.endswith(TRANSCRIPTS)):
            path = os.path.join(parent, name)
            for number, line in enumerate(lines(path), 1):
                if line:
                    yield _utterance(parent, line, "%s: line %d" % (path, number))


def _utterance(folder, line, where):
    name, _, text = line.partition(" ")
    if not text.strip():
        raise DatasetError("%s: %s says nothing" % (where, name))
    try:
        found = characters.numbers(text)
    except KeyError as error:
        told = "%s: %s is no character of a transcript, which has A to Z, the apostrophe and the space"
        raise DatasetError(told % (where, error))
    paths = [os.path.join(folder, name + ending) for ending in AUDIO]
    path = next((one for one in paths if os.path.exists(one)), None)
    if path is None:
        raise DatasetError("%s: there is neither %s nor %s" % (where, *paths))
    samples = _samples(path)
    places, needed = characters.places(spectrogram.frames(samples)), characters.needed(found)
    if needed > places:
        told = "%s: its %d characters take %d places, and %s has %d, of %.2f s: it is too short for what it is to say"
        raise DatasetError(told % (where, len(found), needed, path, places, samples / float(spectrogram.RATE)))
    return Utterance(path, samples, text)


def _samples(path):
    """Return how many samples a file's head promises.

    Raises:
        DatasetError: it is not audio as is wanted here.
    """
    import soundfile

    try:
        head = soundfile.info(path)
    except (OSError, RuntimeError) as error:
        raise DatasetError("%s: %s" % (path, error))
    if (head.samplerate, head.channels) != (spectrogram.RATE, 1):
        told = "%s: it has %d Hz and %d channels, and one of %d Hz is read"
        raise DatasetError(told % (path, head.samplerate, head.channels, spectrogram.RATE))
    if not head.frames or head.frames >= UNKNOWN:
        raise DatasetError("%s: it has 0 s of audio, or its head does not say how many" % path)
    if head.frames > MOST_S * spectrogram.RATE:
        told = "%s: it has %.0f s of audio, and an utterance has %d at most: cut it where somebody pauses"
        raise DatasetError(told % (path, head.frames / float(spectrogram.RATE), MOST_S))
    return _promised(path, head.frames)


def _promised(path, frames):
    """Of a WAV that ends early libsndfile takes what is there for all of it; its head says how much that was."""
    if not path.endswith(".wav"):
        return frames
    try:
        with wave.open(path) as file:
            return file.getnframes()
    except (OSError, EOFError, wave.Error):
        # Of a kind that Python does not know, such as floating point.
        return frames


def decoded(utterance: Utterance) -> Array:
    """Return the int16 samples of an utterance.

    Raises:
        DatasetError: the file ends early, or is damaged.
    """
    import soundfile

    try:
        samples, _ = soundfile.read(utterance.path, dtype="int16")
    except (OSError, RuntimeError, ValueError) as error:
        raise DatasetError("%s: %s" % (utterance.path, error))
    if len(samples) != utterance.samples:
        told = "%s: it ends after %d of %d samples"
        raise DatasetError(told % (utterance.path, len(samples), utterance.samples))
    return samples
