"""Statistics of one stationary series: its autocorrelation, what it is worth in independent values, its outliers.

Arrays in, numbers out. Sources:
    autoregressive spectral estimate of the variance of a mean: Heidelberger & Welch 1981 (CACM 24:233), as in R's coda
    how well that estimate is known: Berk 1974 (Annals of Statistics 2:489)
    order by AICc: Hurvich & Tsai 1989 (Biometrika 76:297)
    bias of a short series: Kendall 1954 (Biometrika 41:403)
    outliers by a running median: Hampel's identifier, Davies & Gather 1993 (JASA 88:782)
    autocorrelation that level shifts do not disturb: Chakar et al. 2017 (Bernoulli 23:1408)
"""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import special

Floats = NDArray[np.float64]

MAX_ORDER = 24  # of the autoregression: judgement
LEAST_TIME = 0.05  # of the autocorrelation: judgement
CREDIT_ERRORS = 0.25  # standard errors by which correlation below zero is credited less than it was found: judgement
LEAST_VALUES = 8  # fewer say nothing about autocorrelation
NORMAL_MAD = 1.4826  # standard deviations of a normal distribution in one median absolute deviation


@dataclass(frozen=True)
class MeanError:
    """How well a series determines its mean.

    Attributes:
        effective: number of independent values that would determine it as well (never more than there are).
        autocorrelation_time: values per independent value, in intervals; 1 for white noise.
        standard_error: of the mean, in the series' unit.
        half_width: of the 95 % interval of the mean; infinite where the series is too short.
    """

    effective: float
    autocorrelation_time: float
    standard_error: float
    half_width: float


def mean_error(values: Floats, confidence: float = 0.95) -> MeanError:
    """Return the error of the mean of a stationary series, its autocorrelation taken into account.

    The variance of the mean is the fitted autoregression's spectral density at frequency 0. Correlation below zero (a
    cycle, whose turns cancel) makes it smaller, carefully (``CREDIT_ERRORS``); it adds no effective values.
    Student's quantile has the degrees of freedom with which that density is known (``Memory.degrees``), which are
    fewer than the effective values.
    """
    n = len(values)
    if n < LEAST_VALUES:
        return MeanError(0.0, math.inf, math.inf, math.inf)
    highest = max(1, min(MAX_ORDER, n // 20))
    gamma = autocovariances(values, highest)
    if gamma[0] <= (1e-9 * float(np.abs(values).max())) ** 2:
        return MeanError(float(n), 1.0, 0.0, 0.0)
    memory = autoregression(gamma, n)
    error = math.sqrt(float(gamma[0]) / (n - 1) * memory.time)
    quantile = float(special.stdtrit(max(memory.degrees, 3.0), 0.5 + confidence / 2))
    time = max(1.0, memory.time)
    return MeanError(n / time, time, error, quantile * error)


def residuals(duration_s: Floats, work: Floats) -> Floats:
    """Return what each interval took beyond (total time / total work) x its work: the ratio's linear residuals."""
    if not len(duration_s):
        return duration_s
    return duration_s - duration_s.sum() / work.sum() * work


def autocovariances(values: Floats, highest: int) -> Floats:
    """Return the (biased, hence positive definite) autocovariances at lags 0 to ``highest``."""
    n = len(values)
    centred = values - values.mean()
    return np.array([centred[: n - lag] @ centred[lag:] / n for lag in range(highest + 1)])


@dataclass(frozen=True)
class Memory:
    """The autoregression that fits a series.

    Attributes:
        time: sum of all its autocorrelations, ``LEAST_TIME`` or more: 1 for white noise.
        degrees: of freedom of a chi-square whose relative spread is that of the estimated ``time`` x variance.
    """

    time: float
    degrees: float


def autoregression(gamma: Floats, n: int, means: int = 1) -> Memory:
    """Return the memory of the autoregression that fits ``gamma`` of ``n`` values, its order chosen by AICc.

    ``means`` levels were subtracted from the values; each adds to the bias of a short series.

    The logarithm of the density at frequency 0, log(v / (1 - s)^2) with the innovations' variance v and the
    coefficients' sum s, has the variance 2 / n + 4 (1' G^-1 1) v / (n (1 - s)^2) (Berk 1974), G the covariances of the
    order's last values. Levinson's recursion gives 1' G^-1 1 as the sum of (1 - s_k)^2 / v_k over lower orders k.
    """
    coefficients = np.zeros(0)
    variance = float(gamma[0])
    inverse = 1.0 / variance  # 1' G^-1 1
    best, chosen = math.inf, (0.0, variance, 1, inverse)
    for order in range(1, len(gamma)):
        reflection = float(gamma[order] - coefficients @ gamma[order - 1 : 0 : -1]) / variance
        coefficients = np.append(coefficients - reflection * coefficients[::-1], reflection)
        variance *= 1.0 - reflection * reflection
        if variance <= 0:
            break
        k = order + 1
        aicc = n * math.log(variance) + 2.0 * k * n / (n - k - 1)
        total = float(coefficients.sum())
        if aicc < best:
            best, chosen = aicc, (total, variance, order, inverse)
        inverse += (1.0 - total) ** 2 / variance
    total, variance, order, inverse = chosen
    total = min(total + (order + 3.0 * total) * means / n, 0.99)  # Kendall's bias; 0.99: a unit root has no mean
    long_run = variance * n / (n - order - 1) / (1.0 - total) ** 2
    degrees = n / (1.0 + 2.0 * inverse * variance / (1.0 - total) ** 2)
    time = long_run / float(gamma[0] * n / (n - 1))
    if time < 1.0:
        time = max(LEAST_TIME, min(1.0, time * (1.0 + CREDIT_ERRORS * math.sqrt(2.0 / degrees))))
    return Memory(time, degrees)


def without_spikes(values: Floats, half_window: int = 5, reach: float = 4.0) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the series with isolated spikes clipped to its surroundings, and a mask of what was clipped.

    A value further than ``reach`` standard deviations from the median of its window is set to that border. A shift of
    level is no spike: the median goes along with it. What stands out from the very first value on, without a gap, is
    left alone: a slow start is warm-up, which is what the caller looks for. (``reach`` and window: judgements.)
    """
    n = len(values)
    if n < 4 * half_window:
        return values.copy(), np.zeros(n, dtype=bool)
    middle = running_median(values, half_window)
    scale = NORMAL_MAD * float(np.median(np.abs(values - middle)))
    outside = np.abs(values - middle) > reach * scale
    outside[: int(np.argmin(outside))] = False
    clipped = np.where(outside, middle + np.sign(values - middle) * reach * scale, values)
    return clipped, outside


def running_median(values: Floats, half_window: int) -> Floats:
    """Return the median of 2 x ``half_window`` + 1 values around each; at the ends the window stays inside."""
    width = 2 * half_window + 1
    medians = np.median(np.lib.stride_tricks.sliding_window_view(values, width), axis=1)
    return np.concatenate([np.full(half_window, medians[0]), medians, np.full(half_window, medians[-1])])


def long_run_variance(values: Floats, borders: list[int]) -> float:
    """Return the variance of one independent value, the level between each two ``borders`` taken out."""
    levels = np.concatenate([np.full(b - a, values[a:b].mean()) for a, b in pairwise(borders)])
    gamma = autocovariances(values - levels, max(1, min(MAX_ORDER, len(values) // 20)))
    means = len(borders) - 1
    if gamma[0] <= (1e-9 * float(np.abs(values).max())) ** 2:
        return 0.0
    return (
        float(gamma[0]) * len(values) / (len(values) - means) * max(1.0, autoregression(gamma, len(values), means).time)
    )


def first_long_run_variance(values: Floats) -> float:
    """Return a rough long-run variance of a series' noise, not fooled by shifts of its level.

    From differences at lags 1 and 2, which a few shifts hardly touch (Chakar et al. 2017):
    var(y[i+2] - y[i]) / var(y[i+1] - y[i]) = 1 + phi for an AR(1). Their squares are winsorised instead of ranked:
    more exact for the short series here.
    """
    first, second = _mean_square(np.diff(values)), _mean_square(values[2:] - values[:-2])
    if first <= 0:
        return 0.0
    phi = min(max(second / first - 1.0, 0.0), 0.95)
    return first / (2.0 * (1.0 - phi)) * (1.0 + phi) / (1.0 - phi)


def _mean_square(differences: Floats) -> float:
    scale = NORMAL_MAD * float(np.median(np.abs(differences)))
    if scale <= 0:
        return float(np.mean(differences**2))
    return float(np.mean(np.minimum(differences**2, (3.0 * scale) ** 2)))
