"""A generator on which nothing was tuned: written before the method was last changed, and run once after that.

Every series draws its own length, noise, autocorrelation and shape. The noise is of a kind that ``simulated`` does not
have: skewed, with a volatility that comes and goes (GARCH(1,1), Bollerslev 1986) and an ARMA(1, 1) memory. What is to
be seen is at least 6 % large, or else below 0.6 %: between those nobody can say what is right.
"""

import numpy as np
from scipy.signal import lfilter

from bench.simulated import MEAN_S, WORK


def steady(rng):
    """Level, after a hyperbolic warm-up in half of the cases, with a periodic part or a tiny drift in some."""
    n, deviation, noise = _noise(rng)
    shape = np.ones(n)
    if rng.random() < 0.5:
        shape += rng.uniform(0.3, 3.0) / (1 + np.arange(n) / rng.uniform(0.5, 2.0)) ** 2
    kind = rng.integers(3)
    if kind == 1:
        shape += deviation * np.where((np.arange(n) + rng.integers(9)) % rng.integers(3, 10) == 0, 1.5, 0.0)
    if kind == 2:
        shape += rng.uniform(-0.006, 0.006) * np.arange(n) / n
    level = 1 + (shape[n // 2 :] - 1).mean()
    return _series(shape, deviation, noise, level)


def unsteady(rng):
    """A lasting shift after the middle, or a slow spell in the middle."""
    n, deviation, noise = _noise(rng)
    place = np.arange(n) / n
    size = rng.uniform(0.06, 0.20)
    if rng.random() < 0.5:
        shape = 1 + rng.choice([-1, 1]) * size * (place > rng.uniform(0.6, 0.8))
    else:
        begin, length = rng.uniform(0.25, 0.5), rng.uniform(0.15, 0.3)
        shape = 1 + size * ((place > begin) & (place < begin + length))
    return _series(shape, deviation, noise, 1.0)


def drifting(rng):
    """A rise or a fall from beginning to end, straight or slightly bent."""
    n, deviation, noise = _noise(rng)
    place = np.arange(1, n + 1) / n
    shape = 1 + rng.choice([-1, 1]) * rng.uniform(0.06, 0.20) * place ** rng.uniform(0.75, 1.4)
    return _series(shape, deviation, noise, 1.0)


def _noise(rng):
    """(length, relative deviation, noise of deviation 1)."""
    n = int(rng.integers(250, 800))
    deviation, phi, theta = rng.uniform(0.005, 0.03), rng.uniform(0.0, 0.5), rng.uniform(0.0, 0.4)
    shocks = rng.gamma(6.0, 1.0, n + 300) / np.sqrt(6.0) - np.sqrt(6.0)
    variance, innovations = 1.0, np.empty(n + 300)
    for index, shock in enumerate(shocks):
        innovations[index] = np.sqrt(variance) * shock
        variance = 0.1 + 0.1 * innovations[index] ** 2 + 0.8 * variance
    noise = lfilter([1.0, theta], [1.0, -phi], innovations)
    scale = np.sqrt((1 + theta**2 + 2 * phi * theta) / (1 - phi**2))  # of an ARMA(1, 1)
    return n, deviation, noise[300:] / scale


def _series(shape, deviation, noise, level):
    relative = np.maximum(shape + deviation * noise, 0.2)
    return MEAN_S * relative, np.full(len(relative), WORK), MEAN_S * level / WORK
