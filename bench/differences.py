"""Cells of one experiment against each other: false differences among equal cells, and what is found of a true one.

For thousands of experiments the rule of ``orchestrator.analysis.statistics.blocks`` is carried out on whole arrays
here; a test holds the two equal. Runs have 100 intervals and the cell's own cut.
"""

from collections.abc import Callable
from itertools import combinations

import numpy as np
from scipy import special

from orchestrator.analysis.statistics.blocks import FAMILY_ERROR, LEAST_SHARE, PAIRED_CELLS
from orchestrator.analysis.statistics.settling import MARGIN, MOST, without_spikes

INTERVALS = 100
CHUNK = 2_000_000  # values drawn at a time


def log_rates(times: np.ndarray) -> np.ndarray:
    """(experiments, cells, runs) of logarithms of rates, after each cell's cut, from times of one more axis."""
    n = times.shape[-1]
    mean = without_spikes(times).mean(axis=2)
    mean -= mean.mean(axis=-1, keepdims=True)
    left = np.arange(n, 0, -1)[: n // 2 + 1]
    total, squares = (np.cumsum(v[..., ::-1], axis=-1)[..., ::-1][..., : n // 2 + 1] for v in (mean, mean**2))
    cut = np.minimum(np.ceil(MARGIN * ((squares - total**2 / left) / left**2).argmin(axis=-1)), int(MOST * n))
    since = np.cumsum(times[..., ::-1], axis=-1)[..., ::-1]
    index = np.broadcast_to(cut.astype(int)[:, :, None, None], (*times.shape[:3], 1))
    return -np.log(np.take_along_axis(since, index, axis=-1)[..., 0] / (n - cut)[:, :, None])


def p_values(logs: np.ndarray, pairs: list[tuple[int, int]]) -> np.ndarray:
    """(experiments, pairs) for complete blocks: paired, or Welch on block-adjusted residuals from four cells on."""
    k, n = logs.shape[1:]
    a, b = (logs[:, [pair[side] for pair in pairs]] for side in (0, 1))
    if k <= PAIRED_CELLS:
        d = b - a
        with np.errstate(divide="ignore", invalid="ignore"):  # recorded processes may be drawn alike on both sides
            t = d.mean(axis=2) / (d.std(axis=2, ddof=1) / np.sqrt(n))
        return np.nan_to_num(2 * special.stdtr(n - 1, -np.abs(t)), nan=1.0)
    rest = logs - logs.mean(axis=1, keepdims=True)
    s = rest.var(axis=2, ddof=1)
    grubbs = k / (k - 2) * (s - s.mean(axis=1, keepdims=True) / (k - 1))
    least = LEAST_SHARE * k / (k - 1) * np.median(s, axis=1, keepdims=True)
    own = np.maximum(np.maximum(s, grubbs), least) / n
    one, other = (own[:, [pair[side] for pair in pairs]] for side in (0, 1))
    degrees = (one + other) ** 2 / ((one**2 + other**2) / (n - 1))
    t = (b.mean(axis=2) - a.mean(axis=2)) / np.sqrt(one + other)
    return 2 * special.stdtr(degrees, -np.abs(t))


def holm(p: np.ndarray) -> np.ndarray:
    """(experiments, pairs): which are called different."""
    order = np.argsort(p, axis=1)
    steps = np.take_along_axis(p, order, axis=1) * np.arange(p.shape[1], 0, -1)
    called = np.maximum.accumulate(steps, axis=1) <= FAMILY_ERROR
    return np.take_along_axis(called, np.argsort(order, axis=1), axis=1)


def family(cells: int, baseline: bool) -> list[tuple[int, int]]:
    return [(0, cell) for cell in range(1, cells)] if baseline else list(combinations(range(cells), 2))


def false_differences(
    generator: Callable, cells: int, experiments: int, seed: int, runs: int = 6, baseline: bool = False
) -> float:
    """Share of experiments of equal cells in which any pair is called different."""
    rng, wrong = np.random.default_rng(seed), 0
    each = max(1, min(experiments, CHUNK // (cells * runs * INTERVALS)))
    for begin in range(0, experiments, each):
        times, _, _ = generator(rng, (min(each, experiments - begin), cells, runs, INTERVALS))
        wrong += int(holm(p_values(log_rates(times), family(cells, baseline))).any(axis=1).sum())
    return wrong / experiments


def power(
    generator: Callable,
    cells: int,
    experiments: int,
    seed: int,
    runs: int = 6,
    baseline: bool = False,
    size: float = 0.10,
) -> float:
    """Share of the pairs with one faster cell (the first, by ``size``) that are called different."""
    rng, pairs = np.random.default_rng(seed), family(cells, baseline)
    ours = [index for index, pair in enumerate(pairs) if pair[0] == 0]
    times, _, _ = generator(rng, (experiments, cells, runs, INTERVALS))
    logs = log_rates(times)
    logs[:, 0] += np.log1p(size)
    return float(holm(p_values(logs, pairs))[:, ours].mean())
