"""The cells of one experiment against each other, by blocks: one repetition of each cell after another.

What a block has in common (the machine was slow just then) is no difference between cells. Everything is on
logarithms, so that a difference is a ratio.

two or three cells   paired: Student's t of the differences within blocks that both cells have
four or more         Welch's t (Welch 1947, Biometrika 34:28) on what is left when the blocks' effects are taken out by
                     least squares. Each cell has a variance of its own, never a pooled one: one noisy cell among quiet
                     ones would make 20 % false differences. Residuals of a two-way table are smaller than the noise
                     they come from; Grubbs 1948 (Journal of the American Statistical Association 43:243) has the
                     estimator that makes up for that. It has two least values (``_variances``), which only widen:
                     six runs that happen to agree would make up to 8 % false differences among twelve cells.
                     Degrees of freedom: Satterthwaite 1946
many pairs           Holm 1979 (Scandinavian Journal of Statistics 6:65) over the family that was declared: all pairs,
                     or all cells against one baseline

The interval of a pair is at the level at which Holm's procedure decided on it, so that it excludes 1 exactly where the
verdict is "faster" or "slower". It holds the ratio of its own pair in 95 % of cases or more; all of them together may
hold theirs less often, while all *verdicts* together are wrong in 5 % or fewer.
"""

import math
from collections.abc import Container, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from orchestrator.domain.runs.wanted_precision import power, upper_side

FAMILY_ERROR = 0.05
POWER = 0.80
PAIRED_CELLS = 3  # up to so many cells are paired
LEAST_SHARE = 0.5  # of the middle cell's variance, that a cell is given at least: judgement
LARGEST_TOLD = math.log(2.0)  # what two runs cannot tell has eight digits: a judgement
MOST_RUNS = 1000  # more would be no answer
PAIRED = "paired by block, Student's t on logarithms, Holm"
ADJUSTED = "Welch's t on block-adjusted logarithms, Holm"

Floats = NDArray[np.float64]
CellKey = Hashable
Block = Hashable
Verdict = Literal["faster", "slower", "cannot_tell", "too_few_runs"]


@dataclass(frozen=True)
class Pair:
    """Cell B against cell A.

    Attributes:
        a, b: the cells' keys; ``a`` is the baseline.
        ratio: B / A; above 1, B is faster. None where no block or no path of blocks joins them.
        ci_low, ci_high: bounds at the level ``confidence``, at which Holm decided.
        p: of this pair alone; ``p_holm`` is adjusted for the family.
        verdict: of B against A.
        detectable_ratio: smallest difference (0.06: 6 %) that these runs find with 80 % probability, at 5 % for the
            whole family.
        more_runs: how many more runs of each cell would find half of that, or of 100 % where it is more; None
            above ``MOST_RUNS``.
        blocks: those that speak of this pair.
        family: number of pairs that were declared.
        text: the verdict in words, with the cells' keys as they were given.
    """

    a: Any
    b: Any
    ratio: float | None
    ci_low: float | None
    ci_high: float | None
    confidence: float | None
    p: float | None
    p_holm: float | None
    verdict: Verdict
    detectable_ratio: float | None
    more_runs: int | None
    blocks: int
    family: int
    text: str
    method: str


@dataclass(frozen=True)
class _Contrast:
    """Mean difference of logarithms, its standard error, the degrees of freedom of that, and its blocks. ``is_staged``:
    more blocks give no more degrees of freedom."""

    difference: float
    error: float
    degrees: float
    blocks: int
    is_staged: bool = False

    @property
    def p(self) -> float:
        if self.error == 0.0:
            return 1.0 if self.difference == 0.0 else 0.0
        return float(2.0 * special.stdtr(self.degrees, -abs(self.difference) / self.error))


def compare_groups(
    groups: Sequence[Mapping[Any, Mapping[Any, float]]], baseline: Any = None, stage: Container[Any] | None = None
) -> list[list[Pair]]:
    """Compare cells within each of several groups. All pairs of all groups are one family, each group has the method
    that its number of cells asks for.

    Args:
        groups: each cell -> block -> rate of the run of that cell in that block; blocks may be missing. A cell without
            a rate stays in the family that was declared: to leave it out would let what came out choose the family.
        baseline: a cell of some of the groups; a group without it has no pairs.
        stage: where the noise of the first blocks chose how many there are, those blocks. They alone tell the noise
            then, all blocks tell the difference: Stein's rule (1945, Annals of Mathematical Statistics 16:243), for
            the same reason as in ``orchestrator.domain.runs.wanted_precision``.

    Returns:
        The pairs of each group.

    Raises:
        ValueError: a rate is not positive.
    """
    if any(not rate > 0 for group in groups for row in group.values() for rate in row.values()):
        raise ValueError("compare_groups wants positive rates")
    families = [_family(list(group), baseline) for group in groups]
    found = [
        (a, b, contrast, method)
        for group, pairs in zip(groups, families, strict=True)
        for (a, b), (contrast, method) in zip(pairs, _contrasts(group, pairs, stage), strict=True)
    ]
    adjusted, levels = holm([None if contrast is None else contrast.p for _, _, contrast, _ in found])
    judged = iter(
        _pair(a, b, contrast, p, level, len(found), method)
        for (a, b, contrast, method), p, level in zip(found, adjusted, levels, strict=True)
    )
    return [list(islice(judged, len(pairs))) for pairs in families]


def _contrasts(
    group: Mapping[CellKey, Mapping[Block, float]],
    pairs: Sequence[tuple[CellKey, CellKey]],
    stage: Container[Block] | None,
) -> list[tuple[_Contrast | None, str]]:
    """The contrast of each pair, and the method that made it."""
    logs = {cell: {block: math.log(rate) for block, rate in row.items()} for cell, row in group.items()}
    usable = {cell: row for cell, row in logs.items() if len(_noise(row, stage)) > 1}
    if len(usable) <= PAIRED_CELLS:
        return [(_paired(logs[a], logs[b], stage), PAIRED) for a, b in pairs]
    return [(contrast, ADJUSTED) for contrast in _adjusted(usable, pairs, stage)]


def _noise(row: Mapping[Block, float], stage: Container[Block] | None) -> dict[Block, float]:
    """What a cell has in the blocks that tell the noise."""
    return {block: value for block, value in row.items() if stage is None or block in stage}


def _family(cells: Sequence[CellKey], baseline: CellKey | None) -> list[tuple[CellKey, CellKey]]:
    if baseline is None:
        return list(combinations(cells, 2))
    return [(baseline, cell) for cell in cells if cell != baseline] if baseline in cells else []


def _paired(a: Mapping[Block, float], b: Mapping[Block, float], stage: Container[Block] | None) -> _Contrast | None:
    differences = {block: b[block] - a[block] for block in a if block in b}
    noise = list(_noise(differences, stage).values())
    if len(noise) < 2:
        return None
    n = len(differences)
    error = float(np.std(noise, ddof=1)) / math.sqrt(n)
    return _Contrast(float(np.mean(list(differences.values()))), error, len(noise) - 1, n, stage is not None)


def _adjusted(
    usable: Mapping[CellKey, Mapping[Block, float]],
    pairs: Sequence[tuple[CellKey, CellKey]],
    stage: Container[Block] | None,
) -> list[_Contrast | None]:
    """Least squares of cell + block; None for a pair that the design cannot tell apart or that is not usable."""
    index = {cell: number for number, cell in enumerate(usable)}
    y, cell_of, design = _two_way(usable)
    solve = np.linalg.pinv(design)
    variances, degrees = _variances({cell: _noise(row, stage) for cell, row in usable.items()})
    found: list[_Contrast | None] = []
    for a, b in pairs:
        wish = np.zeros(design.shape[1])
        if a in index and b in index:
            wish[index[b]], wish[index[a]] = 1.0, -1.0
        weights = wish @ solve
        if not wish.any() or not np.allclose(weights @ design, wish, atol=1e-8):
            found.append(None)
            continue
        parts = np.bincount(cell_of, weights**2) * variances
        blocks = min(len(usable[a]), len(usable[b]))
        freedom = _satterthwaite(parts, degrees)
        found.append(_Contrast(float(weights @ y), math.sqrt(parts.sum()), freedom, blocks, stage is not None))
    return found


def _satterthwaite(parts: Floats, degrees: NDArray[np.int_]) -> float:
    """Return the degrees of freedom of a sum of variances, each with its own."""
    total = float(parts.sum())
    return total**2 / float((parts**2 / degrees).sum()) if total > 0 else float(degrees.min())


def _two_way(rows: Mapping[CellKey, Mapping[Block, float]]) -> tuple[Floats, NDArray[np.int_], Floats]:
    """(logarithms, cell of each, design matrix of indicators: cells first, then blocks)."""
    blocks = {block: number for number, block in enumerate(dict.fromkeys(b for row in rows.values() for b in row))}
    entries = [(c, blocks[block], value) for c, row in enumerate(rows.values()) for block, value in row.items()]
    design = np.zeros((len(entries), len(rows) + len(blocks)))
    for line, (cell, block, _) in enumerate(entries):
        design[line, cell] = design[line, len(rows) + block] = 1.0
    return np.array([value for _, _, value in entries]), np.array([cell for cell, _, _ in entries]), design


def _variances(rows: Mapping[CellKey, Mapping[Block, float]]) -> tuple[Floats, NDArray[np.int_]]:
    """Return each cell's variance (Grubbs' unbiased one, or what its own residuals or the middle cell say if more) and
    its degrees of freedom.

    The expected sums of squares are (M o M) sigma^2 with M the matrix that makes residuals, summed over cells.
    Solved for sigma^2 that is Rao's MINQUE (1970, Journal of the American Statistical Association 65:161), which for a
    complete table is Grubbs' estimator, k / (k - 2) x (S_i^2 - mean S^2 / (k - 1)) for k cells.
    """
    y, cell_of, design = _two_way(rows)
    maker = np.eye(len(y)) - design @ np.linalg.pinv(design)
    counts = np.bincount(cell_of)
    squares = np.bincount(cell_of, (maker @ y) ** 2).astype(float)
    indicator = np.eye(len(counts))[cell_of]
    expected = indicator.T @ maker**2 @ indicator
    unbiased = np.linalg.lstsq(expected, squares, rcond=None)[0]
    middle = float(np.median(squares / np.bincount(cell_of, np.diag(maker))))
    least = np.full(len(counts), LEAST_SHARE * middle)
    return np.maximum.reduce([unbiased, squares / (counts - 1), least]), counts - 1


def holm(ps: Sequence[float | None]) -> tuple[list[float | None], list[float]]:
    """(adjusted p, level at which each was decided) of a family; those without a p stay in it, as the last ones."""
    order = sorted((p, number) for number, p in enumerate(ps) if p is not None)
    adjusted: list[float | None] = [None] * len(ps)
    levels = [FAMILY_ERROR / len(ps) for _ in ps]
    greatest, stopped = 0.0, None
    for rank, (p, number) in enumerate(order):
        remaining = len(ps) - rank
        greatest = max(greatest, min(1.0, p * remaining))
        adjusted[number] = greatest
        if stopped is None and greatest > FAMILY_ERROR:
            stopped = remaining
        levels[number] = FAMILY_ERROR / (stopped or remaining)
    return adjusted, levels


def _pair(
    a: CellKey, b: CellKey, found: _Contrast | None, p_holm: float | None, level: float, family: int, method: str
) -> Pair:
    if found is None or p_holm is None:
        text = f"{b} against {a}: too few runs that can be compared"
        return Pair(a, b, None, None, None, None, None, None, "too_few_runs", None, None, 0, family, text, method)
    half = float(special.stdtrit(found.degrees, 1 - level / 2)) * found.error
    ratio, low, high = (power(found.difference + shift) for shift in (0.0, -half, half))
    smallest = detectable(found.error, found.degrees, FAMILY_ERROR / family)
    wanted = min(smallest, LARGEST_TOLD) / 2
    more = _more_runs(found, FAMILY_ERROR / family, wanted)
    verdict: Verdict = "cannot_tell" if p_holm > FAMILY_ERROR else "faster" if ratio > 1 else "slower"
    text = f"{b} {_digits(ratio, 3)} x {a} ({_digits(low, 3)} to {_digits(high, 3)})"
    if verdict == "cannot_tell":
        runs = "1 more run" if more == 1 else f"{more} more runs"
        would = "" if more is None else f"; {runs} would tell {_percent(wanted)}"
        least = f"below {_percent(smallest)}" if smallest <= LARGEST_TOLD else f"even {_percent(LARGEST_TOLD)}"
        text = f"cannot tell {least}{would}"
    return Pair(
        a,
        b,
        ratio,
        low,
        high,
        1 - level,
        found.p,
        p_holm,
        verdict,
        upper_side(smallest),
        more,
        found.blocks,
        family,
        text,
        method,
    )


def detectable(error: float, degrees: float, level: float) -> float:
    """Return the smallest true difference of logarithms that a two-sided t test at ``level`` finds with ``POWER``.

    Args:
        error: standard error of the difference, with ``degrees`` of freedom.
    """
    if error == 0.0:
        return 0.0
    critical = special.stdtrit(degrees, 1 - level / 2)
    return error * float(special.nctdtrinc(degrees, 1 - POWER, critical))


def _more_runs(found: _Contrast, level: float, wanted: float) -> int | None:
    """How many more runs of each cell find ``wanted``: the error shrinks with their root, the freedom grows."""
    if found.error == 0.0:
        return None

    def enough(blocks: int) -> bool:
        scale = math.sqrt(found.blocks / blocks)
        growth = 1.0 if found.is_staged else (blocks - 1) / (found.blocks - 1)
        return detectable(found.error * scale, found.degrees * growth, level) <= wanted

    low, high = found.blocks, found.blocks + MOST_RUNS
    if not enough(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high - found.blocks


def _percent(difference: float) -> str:
    """Of a difference of logarithms, as a person reads it: two digits."""
    return f"{_digits(100 * upper_side(difference), 2)} %"


def _digits(value: float, digits: int) -> str:
    """Without an exponent, which ``g`` has where the number is larger."""
    return f"{value:.0f}" if value >= 10**digits - 0.5 else f"{value:.{digits}g}"
