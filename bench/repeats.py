"""How often the interval of a cell holds the truth when runs are repeated for a precision, by simulation.

The noise of runs is that of docs/read_results/statistics.md's sources: relative deviations between runs of 0.012 %
(one DGX H100), 0.5 % (a quiet series of nights) and 2.7 % (shared cloud runners), and two between them; within a run a
fifth of that in variance.
"""

import numpy as np

from orchestrator.analysis.cell.between_runs import compare, over_runs
from orchestrator.domain.runs.wanted_precision import first_stage, stein
from orchestrator.domain.value.measurement import Measurement

DEVIATIONS = (0.00012, 0.005, 0.01, 0.0135, 0.027)
WITHIN = 1 / 5  # of the variance between runs
MAX_REPEATS = (10, 100)


def table(experiments: int, rng: np.random.Generator) -> str:
    """Markdown: of ``experiments`` each, all and those that met the target of 1 %; beside it the naive rule's."""
    heads = ("between runs", "max_repeats", "median runs", "met 1 %", "coverage, all", "of those that met it")
    lines = [f"| {' | '.join(heads)} | naive rule, of those |", "|---" * (len(heads) + 1) + "|"]
    for most in MAX_REPEATS:
        for deviation in DEVIATIONS:
            ended = [experiment(rng, deviation, most) for _ in range(experiments)]
            naive = [looking_each_time(rng, deviation, most) for _ in range(experiments // 5)]
            runs = f"{np.median([runs for runs, _, _ in ended]):.0f}"
            row = (f"{deviation:.2%}" if deviation > 0.001 else f"{deviation:.3%}", f"{most}", runs)
            met = [held for _, met, held in ended if met]
            share = f"{len(met) / len(ended):.1%}"
            all_of_them = _share([held for _, _, held in ended])
            lines.append(f"| {' | '.join(row)} | {share} | {all_of_them} | {_share(met)} | {_share(naive)} |")
    return "\n".join(lines)


def comparisons(pairs: int, rng: np.random.Generator) -> str:
    """Markdown: of ``pairs`` of equal cells, how many are called different (5 % may be)."""
    heads = ("between runs", "three runs a side", "repeated for 1 % each")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for deviation in (0.005, 0.01, 0.027):
        plain = [compare(_runs(rng, deviation, 3), _runs(rng, deviation, 3)) for _ in range(pairs)]
        first = first_stage(3)
        staged = [
            compare(_repeated(rng, deviation, 100), _repeated(rng, deviation, 100), first_stages=(first, first))
            for _ in range(pairs)
        ]
        shares = [_share([one.verdict != "no_difference_found" for one in found]) for found in (plain, staged)]
        lines.append(f"| {deviation:.1%} | {' | '.join(shares)} |")
    return "\n".join(lines)


def _repeated(rng: np.random.Generator, deviation: float, most: int, target: float = 0.01) -> list[float]:
    """The rates of a cell that ``expand`` repeats for a precision."""
    first = first_stage(3)
    rates = _runs(rng, deviation, first)
    while len(rates) < min(most, wanted := stein(rates, first, target).wanted):
        rates = [*rates, *_runs(rng, deviation, min(wanted, most) - len(rates))]
    return rates


def experiment(rng: np.random.Generator, deviation: float, most: int, target: float = 0.01) -> tuple[int, bool, bool]:
    """Carry one out as ``expand`` does; (runs, whether the target was met, whether the interval holds the truth)."""
    first, rates = first_stage(3), _repeated(rng, deviation, most, target)
    cell = over_runs([_measurement(rate) for rate in rates], first_stage=first)
    assert cell.ci_low is not None
    assert cell.ci_high is not None
    return len(rates), stein(rates, first, target).met, cell.ci_low <= 1.0 <= cell.ci_high


def looking_each_time(rng: np.random.Generator, deviation: float, most: int, target: float = 0.01) -> bool | None:
    """The rule that one would think of first: three runs, then one more until Student's interval is narrow enough.

    Whether its interval holds the truth; None where it did not get narrow.
    """
    rates = _runs(rng, deviation, 3)
    while True:
        cell = over_runs([_measurement(rate) for rate in rates])
        assert cell.ci_low is not None
        assert cell.ci_high is not None
        if cell.ci_high / cell.value - 1.0 <= target:
            return cell.ci_low <= 1.0 <= cell.ci_high
        if len(rates) >= most:
            return None
        rates = [*rates, *_runs(rng, deviation, 1)]


def _runs(rng: np.random.Generator, deviation: float, count: int) -> list[float]:
    """Rates of fresh processes: the run's own level, and what its finite number of steps leaves."""
    process, within = rng.standard_normal(count), np.sqrt(WITHIN) * rng.standard_normal(count)
    return [float(rate) for rate in 1.0 + deviation * (process + within)]


def _measurement(rate: float) -> Measurement:
    return Measurement("throughput", rate, "images/s", "simulated")


def _share(held: list[bool] | list[bool | None]) -> str:
    known = [one for one in held if one is not None]
    if len(known) < 50:
        return f"({len(known)} only)"
    share = float(np.mean(known))
    return f"{share:.1%} ± {196 * np.sqrt(share * (1 - share) / len(known)):.1f} %"
