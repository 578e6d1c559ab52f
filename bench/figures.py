"""How often what is printed holds, by simulation: ``python -m bench.figures [PART …]``.

Prints Markdown; docs/read_results/statistics.md quotes it. ± is the simulation's own 95 % error. What single runs are
called (findings, which leave no run out) is ``python -m bench.coverage``.
"""

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from bench import cells, differences, held_out_cells, machines, repeats
from orchestrator.analysis.cell import lending
from orchestrator.analysis.cell.length import LEAST_INTERVALS
from orchestrator.analysis.statistics.nested import quantile

LEAST = 10  # cases of each kind, however small a share is asked for
KINDS = {
    "promised": {**machines.PROMISED, "kept out of the tuning": held_out_cells.cells},
    "reported": {**machines.SPIKES, **machines.RARE},
    "moving": machines.MOVING,
}
PAIRS = 4  # times as many experiments of two cells, which have the largest shares and cost the least
FAMILIES = ((2, False), (3, False), (3, True), (4, False), (4, True), (6, False), (12, False))


def of_cells(count: int, seed: int) -> None:
    _row("kind", "printed", "coverage", "half-width", "bias", "long-run mean")
    _row(*["---"] * 6)
    for kinds in KINDS.values():
        for name, generator in kinds.items():
            found = cells.measure(generator, count, seed)
            long = _share(found.held_long) if found.held_long else ""
            width, bias = f"{np.mean(found.widths):.1%}", f"{np.mean(found.errors):+.2%}"
            _row(name, f"{found.printed:.1%}", _share(found.held), width, bias, long)


def of_differences(count: int, seed: int) -> None:
    """Every kind, two to twelve cells; ``b``: against a baseline. Then spikes in one cell only."""
    _row("equal cells", *(f"{k}{' b' if b else ''}" for k, b in FAMILIES))
    _row(*["---"] * (len(FAMILIES) + 1))
    kinds = {name: one for part in KINDS.values() for name, one in part.items() if name != "kept out of the tuning"}
    for name, generator in {**kinds, **machines.UNEQUAL, "spikes in one cell": machines.spikes_in_one}.items():
        counts = [count * (PAIRS if k == 2 else 1) for k, _ in FAMILIES]
        shares = [
            differences.false_differences(generator, k, n, seed, baseline=b)
            for (k, b), n in zip(FAMILIES, counts, strict=True)
        ]
        _row(name, *(f"{share:.1%}" for share in shares))


def of_power(count: int, seed: int) -> None:
    """A true 10 % of one cell, processes of 4 %."""
    generator = partial(machines.level, process=0.04)
    _row("blocks", *(f"{k}{' b' if b else ''}" for k, b in FAMILIES))
    _row(*["---"] * (len(FAMILIES) + 1))
    for runs in (6, 8, 10):
        found = [differences.power(generator, k, count, seed, runs, b) for k, b in FAMILIES]
        _row(str(runs), *(f"{share:.0%}" for share in found))


def of_time(count: int, seed: int) -> None:
    """Mean half-width at the machine time of 3 runs of 90 intervals, which have Student's t too."""
    _row("start-up", "runs in that time", "half-width", "3 x 90", "ratio")
    _row(*["---"] * 5)
    for start_up_s in (3.0, 5.0, 15.0):
        budget = 3 * (start_up_s + 90 * machines.INTERVAL_S)
        known = partial(_known_workload, count, seed, LEAST_INTERVALS, start_up_s)
        runs = next(n for n in range(2, 20) if known(n + 1)[1] > budget)
        (low, cheap), (high, dear) = known(runs), known(runs + 1)
        share = (budget - cheap) / (dear - cheap)
        width = math.exp((1 - share) * math.log(low) + share * math.log(high))
        before = _known_workload(count, seed, 90, start_up_s, 3)[0]
        _row(f"{start_up_s:g} s", f"{runs + share:.1f}", f"{width:.1%}", f"{before:.1%}", f"{width / before:.2f}")


def _known_workload(count: int, seed: int, intervals: int, start_up_s: float, runs: int) -> tuple[float, float]:
    """(mean half-width, seconds) of cells without warm-up, processes of 4 %."""
    times, _, _ = machines.level(np.random.default_rng(seed), (count, 1, runs, intervals), process=0.04)
    rates = 1 / times[:, 0].mean(axis=2)
    half = quantile(runs - 1) * np.log(rates).std(axis=1, ddof=1) / np.sqrt(runs)
    return float(half.mean()), runs * (start_up_s + intervals * machines.INTERVAL_S)


def of_history(count: int, seed: int) -> None:
    """A deviation lent by sessions of six runs, whose deviations scatter (standard deviation of their logarithm)."""
    _row("sessions", "scatter", "runs", "coverage, lent", "half-width, lent", "half-width, own")
    _row(*["---"] * 6)
    for sessions in (3, 6, 12):
        for scatter in (0.25, 0.5, 0.9):
            for runs in (1, 2, 3):
                rng = np.random.default_rng(seed)
                found = [_lent(rng, sessions, scatter, runs) for _ in range(count)]
                held, widths, own = zip(*found, strict=True)
                alone = "" if runs == 1 else f"{np.median(own):.1%}"
                _row(f"{sessions}", f"{scatter}", f"{runs}", _share(held), f"{np.median(widths):.1%}", alone)


def _lent(rng: np.random.Generator, sessions: int, scatter: float, runs: int) -> tuple[bool, float, float]:
    """(whether the lent interval holds the truth, its half-width, that of the cell's own)."""
    deviations = 0.02 * np.exp(scatter * rng.standard_normal(sessions + 1))
    rows = np.exp(deviations[:-1, None] * rng.standard_normal((sessions, 6)))
    lent = lending.lend([lending.Session(tuple(row), 0.0, 60) for row in rows])
    logs = deviations[-1] * rng.standard_normal(runs)
    half = lent.half_width(runs)
    own = quantile(runs - 1) * logs.std(ddof=1) / math.sqrt(runs) if runs > 1 else math.inf
    return bool(abs(logs.mean()) <= half), half, float(own)


def of_precision(count: int, seed: int) -> None:
    print(repeats.table(count, np.random.default_rng(seed)))


def _share(held: Sequence[bool]) -> str:
    if len(held) < 10:
        return f"({len(held)} only)"
    share = float(np.mean(held))
    return f"{share:.1%} ± {1.96 * math.sqrt(share * (1 - share) / len(held)):.1%}"


def _row(*fields: str) -> None:
    print(f"| {' | '.join(fields)} |", flush=True)


# part -> (function, cases of each kind)
PARTS: dict[str, tuple[Callable[[int, int], None], int]] = {
    "cells": (of_cells, 2000),
    "differences": (of_differences, 5000),
    "power": (of_power, 2000),
    "time": (of_time, 5000),
    "history": (of_history, 2000),
    "precision": (of_precision, 2000),
}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="of the cases (1: about half an hour of one core)")
    parser.add_argument("--seed", type=int, default=20261122)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all of them by default")
    options = parser.parse_args(arguments)
    for part in options.parts or PARTS:
        function, count = PARTS[part]
        count = max(LEAST, round(options.share * count))
        print(f"\n{part}: {count} of each, seed {options.seed}\n", flush=True)
        function(count, options.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
