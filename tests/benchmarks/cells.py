"""One cell: how often the rule prints a number, how often that holds the truth, and how wide it is.

The new rule is carried out with the product's functions, step by step: two pilots, a length fixed from them, four more
runs, one cut for all, Student's t. The rule of before (up to 9cb6956) is three runs of 90 intervals, of which those
count that look steady: without the rule that ended runs early, which only made it worse.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from orchestrator.analysis.cell.between_runs import over_runs
from orchestrator.analysis.cell.length import first_length, noise_of, planned_length
from orchestrator.analysis.run.throughput import WorldIntervals, rate_measurement
from orchestrator.analysis.statistics.nested import quantile
from orchestrator.analysis.statistics.settling import cut_of, scouts
from orchestrator.analysis.statistics.steady import SteadyClass, judge
from orchestrator.domain.value.measurement import Measurement
from tests.benchmarks.machines import INTERVAL_S, START_UP

RUNS = 6
START_UP_S = START_UP * INTERVAL_S
MOST = 240  # intervals that are drawn of each run
OLD_RUNS, OLD_INTERVALS = 3, 90
Interval = tuple[float, float, float]  # value, low, high


@dataclass
class Tally:
    """Of one rule on one kind of cell. Widths are half-widths over the value."""

    cells: int = 0
    held: list[bool] = field(default_factory=list)
    held_long: list[bool] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    widths: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)

    @property
    def printed(self) -> float:
        return len(self.held) / self.cells

    @property
    def coverage(self) -> float:
        return float(np.mean(self.held)) if self.held else float("nan")

    def take(self, found: Interval | None, truth: float, long: float | None) -> None:
        self.cells += 1
        if found is None:
            return
        value, low, high = found
        self.held.append(low <= 1 / truth <= high)
        self.errors.append(value * truth - 1)
        self.widths.append((high - low) / 2 / value)
        if long is not None:
            self.held_long.append(low <= 1 / long <= high)


def measure(
    generator: Callable, cells: int, seed: int, old_cells: int = 0, runs: int = RUNS, start_up_s: float = START_UP_S
) -> tuple[Tally, Tally]:
    """(new, old) on the same cells, the old rule on the first ``old_cells`` of them."""
    rng = np.random.default_rng(seed)
    new, old = Tally(), Tally()
    chunk = 50
    for begin in range(0, cells, chunk):
        count = min(chunk, cells - begin)
        times, truth, long = generator(rng, (count, 1, runs, MOST))
        truths = np.broadcast_to(truth, (count,))
        for index in range(count):
            series = times[index, 0]
            new.take(by_the_new_rule(series, new.lengths, start_up_s), float(truths[index]), long)
            if begin + index < old_cells:
                old.take(by_the_old_rule(series), float(truths[index]), long)
    return new, old


def by_the_new_rule(
    series: np.ndarray, lengths: list[int] | None = None, start_up_s: float = START_UP_S
) -> Interval | None:
    """``series`` has the runs as rows, as long as they could be; ``lengths`` takes note of how long the last was."""
    pilots = [run[: first_length().intervals] for run in series[:2]]
    cut = cut_of(pilots)
    noise = replace(noise_of(pilots, cut.first, INTERVAL_S), intervals=0)  # as analysis.prospect has it
    length = min(planned_length(noise, start_up_s).intervals, MOST)
    if lengths is not None:
        lengths.append(length)
    return interval_of([*pilots, *(run[:length] for run in series[2:])])


def interval_of(runs: Sequence[np.ndarray]) -> Interval | None:
    """The interval of a cell's runs: one cut, scouts left out, Student's t."""
    first = cut_of(runs).first
    left_out = scouts([len(run) for run in runs], first)
    rates = [1 / run[first:].mean() for index, run in enumerate(runs) if index not in left_out]
    cell = over_runs([Measurement("throughput", float(rate), "units/s", "simulated") for rate in rates])
    return None if cell.ci_low is None else (cell.value, cell.ci_low, cell.ci_high)


def by_the_old_rule(series: np.ndarray) -> Interval | None:
    """Those of three runs that look steady; a single one has the interval from within it."""
    rates = []
    for run in series[:OLD_RUNS, :OLD_INTERVALS]:
        works = np.ones(len(run))
        state = judge(run, works, [1] * len(run))
        if state.state is SteadyClass.STEADY:
            kept = WorldIntervals(run[state.first :], works[state.first :], (1,) * (len(run) - state.first), ())
            rates.append(rate_measurement(kept, "units", None, ""))
    if not rates:
        return None
    if len(rates) == 1:
        return rates[0].value, rates[0].ci_low, rates[0].ci_high
    values = [rate.value for rate in rates]
    half = quantile(len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values))
    return float(np.mean(values)), float(np.mean(values) - half), float(np.mean(values) + half)
