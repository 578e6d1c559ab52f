"""Series of intervals whose truth is known: what the statistics are measured on. Seeded by the caller.

Each generator returns (durations_s, works, truth): seconds, work per interval, and the true seconds per unit of work of
the steady part. ``deviation`` is the standard deviation of the noise over the mean.
"""

import numpy as np
from scipy.signal import lfilter

MEAN_S = 0.4
WORK = 4.0


def autoregressive(rng, n, phi):
    """AR(1) noise of standard deviation 1."""
    noise = rng.standard_normal(n + 200) * np.sqrt(1 - phi**2)
    return lfilter([1.0], [1.0, -phi], noise)[200:]


def level(rng, n, deviation, phi=0.0):
    """A steady run: white noise (``phi`` 0) or AR(1)."""
    return _series(1 + deviation * autoregressive(rng, n, phi))


def mixed(rng, n, deviation):
    """Steady, ARMA(2, 1) with correlation that dies slowly, from skewed noise."""
    noise = lfilter([1.0, 0.4], [1.0, -0.5, -0.15], rng.gamma(4.0, 1.0, n + 200) - 4.0)[200:]
    return _series(1 + deviation * noise / noise.std())


def warmup(rng, n, deviation, phi=0.0, size=1.0, length=8.0):
    """A transient that dies with e-fold ``length`` intervals, before a steady run; begins ``size`` above the level."""
    return _series(1 + size * np.exp(-np.arange(n) / length) + deviation * autoregressive(rng, n, phi))


def shift(rng, n, deviation, phi=0.0, size=0.08, at=0.65):
    """One shift of the level at the share ``at`` of the run."""
    return _series(1 + size * (np.arange(n) >= at * n) + deviation * autoregressive(rng, n, phi))


def early_shift(rng, n, deviation, phi=0.0, size=0.3, at=0.2):
    """A slower first level, as while caches fill: a warm-up of another form."""
    return _series(1 + size * (np.arange(n) < at * n) + deviation * autoregressive(rng, n, phi))


def drift(rng, n, deviation, phi=0.0, size=0.08):
    """A change by ``size`` over the run, in a straight line."""
    return _series(1 + size * (np.arange(n) / n - 0.5) + deviation * autoregressive(rng, n, phi))


def small_drift(rng, n, deviation, phi=0.0):
    """A drift of 0.5 % over the run: practically level."""
    return drift(rng, n, deviation, phi, size=0.005)


def short_cycle(rng, n, deviation, phi=0.0, period=7, size=0.03):
    """A wave that fits the run often: its mean is well defined, the run is steady."""
    wave = size * np.sin(2 * np.pi * (np.arange(n) / period + rng.random()))
    return _series(1 + wave + deviation * autoregressive(rng, n, phi))


def long_cycle(rng, n, deviation, phi=0.0, periods=2.0, size=0.08):
    """A wave that fits the run twice: what the mean is depends on where one stops."""
    wave = size * np.sin(2 * np.pi * (periods * np.arange(n) / n + rng.random()))
    return _series(1 + wave + deviation * autoregressive(rng, n, phi))


def spikes(rng, n, deviation, phi=0.0, share=0.03, size=1.0):
    """Isolated spikes (exponential, ``size`` on average) in ``share`` of the intervals: a busy shared machine."""
    hits = (rng.random(n) < share) * rng.exponential(size, n)
    durations, works, truth = _series(1 + deviation * autoregressive(rng, n, phi) + hits)
    return durations, works, truth * (1 + share * size)


def heavy_tails(rng, n, deviation, phi=0.0):
    """Noise of Student's t with three degrees of freedom."""
    noise = rng.standard_t(3, n) / np.sqrt(3)
    return _series(1 + deviation * noise)


def buckets(rng, n, deviation, phi=0.0):
    """Sentences in buckets of length: work and duration of an interval vary by a factor of five, in proportion."""
    works = rng.choice([10.0, 20.0, 30.0, 40.0, 50.0], n) * WORK
    durations, _, truth = _series(1 + deviation * autoregressive(rng, n, phi))
    return durations * works / WORK, works, truth


def buckets_with_overhead(rng, n, deviation, phi=0.0, overhead=0.3):
    """The same with a part of the time that does not depend on the length: short sentences cost more per word."""
    works = rng.choice([10.0, 20.0, 30.0, 40.0, 50.0], n) * WORK
    return _of_length(works, 1 + deviation * autoregressive(rng, n, phi), overhead)


def sorted_buckets(rng, n, deviation, phi=0.0, overhead=0.3, of_each=2):
    """Short sentences first, then longer ones, and again: a cycle of 5 x ``of_each`` intervals."""
    lengths = np.repeat([10.0, 20.0, 30.0, 40.0, 50.0], of_each)
    works = np.roll(np.resize(lengths, n + len(lengths)), rng.integers(len(lengths)))[:n] * WORK
    return _of_length(works, 1 + deviation * autoregressive(rng, n, phi), overhead)


def _of_length(works, noise, overhead):
    mean = 30.0 * WORK
    durations = MEAN_S * (overhead + (1 - overhead) * works / mean) * noise
    return durations, works, MEAN_S / mean


def _series(relative):
    return MEAN_S * relative, np.full(len(relative), WORK), MEAN_S / WORK
