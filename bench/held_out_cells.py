"""A generator on which nothing was tuned: written beside the rules for cells, run on them when they were done.

Every cell draws its own noise, memory, warm-up, and way in which processes differ. The noise is of a kind that
``machines`` does not have: skewed, with a volatility that comes and goes (GARCH(1,1), Bollerslev 1986) and an
ARMA(1, 1) memory; warm-ups are hyperbolic, processes differ by a gamma law or by one of three modes, some programs do
something dear every few intervals.
"""

import numpy as np
from scipy.signal import lfilter

BURN_IN = 100


def cells(rng, shape):
    """As the generators of ``machines``. The truth is the level after the warm-up, what is periodic among it."""
    times = np.empty(shape)
    truth = np.empty(shape[0])
    for experiment in range(shape[0]):
        noise = rng.uniform(0.005, 0.03) * _noise(rng, shape[1:])
        shape_of, level = _shape(rng, shape[3])
        times[experiment] = np.maximum(shape_of * (1 + noise) * _processes(rng, shape[1:3])[..., None], 0.2)
        truth[experiment] = level
    return times, truth, None


def _shape(rng, n):
    """(relative time by interval, its level in the long run)."""
    shape, level = np.ones(n), 1.0
    if rng.random() < 0.5:
        shape += rng.uniform(0.3, 3.0) / (1 + np.arange(n) / rng.uniform(0.5, 2.0)) ** 2
    if rng.random() < 1 / 3:
        period, size = rng.integers(3, 10), rng.uniform(0.01, 0.05)
        shape += size * ((np.arange(n) + rng.integers(9)) % period == 0)
        level += size / period
    return shape, level


def _processes(rng, shape):
    size = 10 ** rng.uniform(-3, -1.4)  # 0.1 to 4 %
    if rng.random() < 0.5:
        return 1 + size * (rng.gamma(9.0, 1.0, shape) / 3.0 - 3.0)
    modes = np.array([-1.0, 0.0, 1.0]) * np.sqrt(1.5)
    return 1 + size * rng.choice(modes, shape)


def _noise(rng, shape):
    """Of deviation 1, of the shape (cells, runs, intervals), with one memory."""
    phi, theta = rng.uniform(0.0, 0.5), rng.uniform(0.0, 0.4)
    n = shape[2] + BURN_IN
    shocks = (rng.gamma(6.0, 1.0, (*shape[:2], n)) - 6.0) / np.sqrt(6.0)
    variance, innovations = np.ones(shape[:2]), np.empty((*shape[:2], n))
    for index in range(n):
        innovations[..., index] = np.sqrt(variance) * shocks[..., index]
        variance = 0.1 + 0.1 * innovations[..., index] ** 2 + 0.8 * variance
    noise = lfilter([1.0, theta], [1.0, -phi], innovations)[..., BURN_IN:]
    return noise / np.sqrt((1 + theta**2 + 2 * phi * theta) / (1 - phi**2))
