"""One cell: how often the rule prints a number, how often that holds the truth, and how wide it is.

The rule is carried out with the product's functions, step by step: two pilots, a length fixed from them, four more
runs, one cut for all, Student's t.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from bench.machines import INTERVAL_S, START_UP
from orchestrator.analysis.cell.between_runs import over_runs
from orchestrator.analysis.cell.length import first_length, noise_of, planned_length
from orchestrator.analysis.statistics.settling import cut_of, scouts
from orchestrator.domain.value.measurement import Measurement

RUNS = 6
START_UP_S = START_UP * INTERVAL_S
MOST = 240  # intervals that are drawn of each run
Interval = tuple[float, float, float]  # value, low, high


@dataclass
class Tally:
    """Of one kind of cell. Widths are half-widths over the value."""

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


def measure(generator: Callable, cells: int, seed: int, runs: int = RUNS, start_up_s: float = START_UP_S) -> Tally:
    rng = np.random.default_rng(seed)
    tally = Tally()
    chunk = 50
    for begin in range(0, cells, chunk):
        count = min(chunk, cells - begin)
        times, truth, long = generator(rng, (count, 1, runs, MOST))
        truths = np.broadcast_to(truth, (count,))
        for index in range(count):
            tally.take(by_the_rule(times[index, 0], tally.lengths, start_up_s), float(truths[index]), long)
    return tally


def by_the_rule(
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
