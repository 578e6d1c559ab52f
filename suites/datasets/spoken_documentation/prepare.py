"""Makes the dataset: ``python -m suites.datasets.spoken_documentation.prepare --root DIR``.

Sentences of the documentation that is installed with the interpreter, and parts of them between commas, spoken by
espeak-ng in several voices, in LibriSpeech's layout; and the same as arrays. Nobody's voice was recorded: it is good
for speed and for showing that a network learns, and tells nothing of how it hears people.
"""

import ctypes
import hashlib
import os
import random
import re
import sys
from typing import Any, Dict, Iterator, List, NamedTuple

from suites.datasets import making
from suites.datasets.documentation import prose
from suites.datasets.text_layouts import sentences
from suites.datasets.utterances import arrays, layout, spectrogram

VERSION = 1


class Voice(NamedTuple):
    """espeak-ng's names of an accent ("en": British) and of a variant, its words a minute and its pitch, 0 to 99."""

    accent: str
    variant: str
    rate: int
    pitch: int


# Each is a speaker, numbered from 1. The rates are about those of people who read aloud.
VOICES = (
    Voice("en-us", "m3", 165, 40),
    Voice("en-us", "f2", 175, 60),
    Voice("en", "m7", 155, 45),
    Voice("en", "f4", 170, 55),
    Voice("en-gb-scotland", "m1", 160, 50),
    Voice("en-gb-x-rp", "f3", 180, 50),
    Voice("en-us", "m5", 185, 35),
    Voice("en-gb-x-gbclan", "f1", 165, 65),
)

# Utterances of each split.
COUNTS = {"train": 240, "dev": 24, "test": 24}
# As ``prose.splits`` names what it has kept apart.
SOURCES = {"train": "train", "dev": "valid", "test": "test"}
# Sizes for tests have places for short ones only: parts of sentences have so few words.
LEAST_WORDS, MOST_WORDS, MOST_OF_SHORT = 3, 16, 5
# In the middle of LibriSpeech's chapters: so many utterances are a folder.
CHAPTER = 80

_NOT_WORDS = re.compile(r"[^A-Z' ,]")

# Of espeak-ng's speak_lib.h.
_SYNCHRONOUS, _UTF8, _RATE, _PITCH = 2, 1, 1, 3
_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)


def write_all(folder: str) -> Dict[str, str]:
    """Write every split, and its arrays, below ``folder``."""
    import soundfile

    speaker = Speaker()
    found = prose.splits(prose.documents())
    for split, count in COUNTS.items():
        texts = list(dict.fromkeys(_texts(found[SOURCES[split]])))
        random.Random(split).shuffle(texts)
        for number, text in enumerate(texts[:count]):
            voice = int(hashlib.sha256(text.encode("ascii")).hexdigest(), 16) % len(VOICES)
            chapter = "%d-%d" % (voice + 1, number // CHAPTER)
            parent = os.path.join(folder, split, str(voice + 1), str(number // CHAPTER))
            os.makedirs(parent, exist_ok=True)
            name = "%s-%04d" % (chapter, number)
            samples = speaker.said(text, VOICES[voice])
            soundfile.write(os.path.join(parent, name + ".flac"), samples, spectrogram.RATE, subtype="PCM_16")
            with open(os.path.join(parent, chapter + layout.TRANSCRIPTS), "a", encoding="ascii") as file:
                file.write("%s %s\n" % (name, text))
    return dict(prose.versions(), espeak_ng=speaker.version, **arrays.write(folder, folder))


def _texts(documents: List[prose.Document]) -> Iterator[str]:
    """Yield what of documents can be said: sentences, and short parts of them, without anything but words."""
    for document in documents:
        for paragraph in document.paragraphs:
            for sentence in sentences(paragraph):
                plain = sentence.upper().strip().rstrip(".!?:")
                if _NOT_WORDS.search(plain):
                    continue
                parts = [" ".join(part.split()) for part in plain.split(",")]
                whole = " ".join(" ".join(parts).split())
                if LEAST_WORDS <= len(whole.split()) <= MOST_WORDS:
                    yield whole
                for part in parts:
                    if part != whole and LEAST_WORDS <= len(part.split()) <= MOST_OF_SHORT:
                        yield part


class Speaker(object):
    """espeak-ng as a library: ``espeakng_loader`` has it with its voices, and installs nothing.

    Raises:
        SystemExit: it does not begin.
    """

    def __init__(self) -> None:
        import espeakng_loader

        self._library = ctypes.CDLL(espeakng_loader.get_library_path())
        self._library.espeak_Info.restype = ctypes.c_char_p
        data = espeakng_loader.get_data_path()
        self._rate = self._library.espeak_Initialize(_SYNCHRONOUS, 0, os.fsencode(data), 0)
        if self._rate <= 0:
            raise SystemExit("espeak-ng does not find its voices in %s" % data)
        self._found = bytearray()
        # Kept: the library calls it after this is over.
        self._callback = _CALLBACK(self._take)
        self._library.espeak_SetSynthCallback(self._callback)

    @property
    def version(self) -> str:
        return str(self._library.espeak_Info(None).decode("ascii"))

    def _take(self, samples, count, events):
        if samples and count > 0:
            self._found += ctypes.string_at(samples, 2 * count)
        return 0

    def said(self, text: str, voice: Voice) -> Any:
        """Return the int16 samples of ``text``, ``spectrogram.RATE`` a second.

        Raises:
            SystemExit: espeak-ng has no such voice, or says nothing.
        """
        import numpy
        from scipy import signal

        name = "%s+%s" % (voice.accent, voice.variant)
        if self._library.espeak_SetVoiceByName(name.encode("ascii")):
            raise SystemExit("espeak-ng has no voice %s" % name)
        self._library.espeak_SetParameter(_RATE, voice.rate, 0)
        self._library.espeak_SetParameter(_PITCH, voice.pitch, 0)
        # Else what it draws begins with the time.
        self._library.espeak_ng_SetRandSeed(ctypes.c_long(1))
        del self._found[:]
        # In lower case: words in upper case may be spelled.
        given = text.lower().encode("ascii") + b"\0"
        failed = self._library.espeak_Synth(given, ctypes.c_size_t(len(given)), 0, 1, 0, _UTF8, None, None)
        samples = numpy.frombuffer(bytes(self._found), numpy.int16)
        if failed or len(samples) < self._rate // 10:
            raise SystemExit("espeak-ng says nothing of %r in the voice %s" % (text, name))
        at_once = signal.resample_poly(samples.astype(numpy.float64), spectrogram.RATE, self._rate)
        return numpy.clip(numpy.rint(at_once), -32768, 32767).astype(numpy.int16)


if __name__ == "__main__":
    sys.exit(making.main(VERSION, write_all))
