"""Logarithmic spectrograms of audio, 20 ms every 10 ms, as deepspeech.pytorch makes them and by numpy alone.

Source: Amodei et al., "Deep Speech 2", 2015, section 2 ("log-spectrograms of power normalized audio clips, calculated
on 20ms windows"); the Hamming window, log(1 + magnitude) and the normalisation of each utterance are those of
deepspeech.pytorch (github.com/SeanNaren/deepspeech.pytorch).
"""

from workers.trainer.base.signatures import Array

# Samples a second.
RATE = 16000
WINDOW, HOP = 320, 160
FREQUENCIES = WINDOW // 2 + 1
# What a sample of 16 bits is divided by.
_FULL_SCALE = 32768.0
# What keeps silence from a division by nothing.
_LEAST = 1e-6


def frames(samples: int) -> int:
    """Return how many windows lie within so many samples."""
    return 0 if samples < WINDOW else 1 + (samples - WINDOW) // HOP


def of(samples: Array) -> Array:
    """Return float32 (``FREQUENCIES``, frames) of a window or more of int16 samples: with mean 0 and deviation 1."""
    import numpy

    shape, step = (frames(len(samples)), WINDOW), samples.strides[0]
    windows_TW = numpy.lib.stride_tricks.as_strided(samples, shape, (HOP * step, step), writeable=False)
    # In double precision, in which numpy transforms them anyway.
    transformed_TF = numpy.fft.rfft(windows_TW / _FULL_SCALE * numpy.hamming(WINDOW))
    found_FT = numpy.log1p(numpy.abs(transformed_TF)).T
    return ((found_FT - found_FT.mean()) / max(float(found_FT.std()), _LEAST)).astype(numpy.float32)
