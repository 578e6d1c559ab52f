"""How often single runs are called what they are, by simulation: ``python -m bench.coverage [PART …] [--series N]``.

Prints, as Markdown, the share of series of each kind that get their class, and how often the 95 % interval of those
called steady holds the truth.
"""

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from bench import held_out, recorded, repeats, simulated
from orchestrator.analysis.run.throughput import WorldIntervals, rate_measurement
from orchestrator.analysis.statistics.course import CourseState, judge
from orchestrator.analysis.statistics.settling import cut_of

STEADY, DRIFTING, UNSTEADY, TOO_SHORT = (
    CourseState.STEADY,
    CourseState.DRIFTING,
    CourseState.UNSTEADY,
    CourseState.TOO_SHORT,
)

# name, generator, its arguments (intervals, noise, autocorrelation at lag 1, ...), the class that is right
FIXED = [
    ("white noise", simulated.level, (120, 0.03), STEADY),
    ("AR(1) 0.4", simulated.level, (250, 0.03, 0.4), STEADY),
    ("AR(1) 0.6", simulated.level, (400, 0.03, 0.6), STEADY),
    ("AR(1) 0.8", simulated.level, (900, 0.03, 0.8), STEADY),
    ("ARMA, skewed", simulated.mixed, (600, 0.03), STEADY),
    ("Student's t, 3 degrees", simulated.heavy_tails, (150, 0.03), STEADY),
    ("warm-up, exponential", simulated.warmup, (150, 0.03), STEADY),
    ("warm-up, AR(1) 0.5", simulated.warmup, (400, 0.03, 0.5), STEADY),
    ("warm-up, a slower level", simulated.early_shift, (150, 0.03), STEADY),
    ("drift of 0.5 %", simulated.small_drift, (150, 0.03), STEADY),
    ("cycle of 7 intervals", simulated.short_cycle, (150, 0.02), STEADY),
    ("cycle of 7 intervals", simulated.short_cycle, (600, 0.02), STEADY),
    ("bucketed text", simulated.buckets, (150, 0.03), STEADY),
    ("the same with overhead", simulated.buckets_with_overhead, (300, 0.03), STEADY),
    ("buckets in order: a cycle of 10", simulated.sorted_buckets, (300, 0.03), STEADY),
    ("drift of 4 %", simulated.drift, (400, 0.02, 0.0, 0.04), DRIFTING),
    ("drift of 4 %, AR(1) 0.5", simulated.drift, (600, 0.02, 0.5, 0.04), DRIFTING),
    ("drift of 8 %", simulated.drift, (150, 0.03), DRIFTING),
    ("drift of 8 %, AR(1) 0.5", simulated.drift, (400, 0.03, 0.5), DRIFTING),
    ("shift of 8 % at 65 %", simulated.shift, (150, 0.03), UNSTEADY),
    ("the same, AR(1) 0.5", simulated.shift, (400, 0.03, 0.5), UNSTEADY),
    ("two cycles in the run", simulated.long_cycle, (150, 0.03), UNSTEADY),
    ("white noise", simulated.level, (45, 0.03), TOO_SHORT),
    ("AR(1) 0.8", simulated.level, (150, 0.03, 0.8), TOO_SHORT),
    # Rare dear spikes: what a short run cannot know. Said openly, in no average.
    ("spikes in 3 %", simulated.spikes, (150, 0.03), STEADY),
    ("spikes in 3 %", simulated.spikes, (600, 0.03), STEADY),
]

# The generator on which nothing was tuned: name, generator, the class that is right
HELD_OUT = [
    ("kept out: steady", held_out.steady, STEADY),
    ("kept out: unsteady", held_out.unsteady, UNSTEADY),
    ("kept out: drifting", held_out.drifting, DRIFTING),
]


@dataclass
class Tally:
    states: list[CourseState] = field(default_factory=list)
    covered: list[bool] = field(default_factory=list)

    def take(self, durations: np.ndarray, works: np.ndarray, truth: float) -> None:
        first = cut_of([durations / works]).first
        state = judge(durations, works, first).state
        self.states.append(state)
        if state is STEADY:
            kept_s, kept = durations[first:], works[first:]
            rate = rate_measurement(WorldIntervals(kept_s, kept, (1,) * len(kept), ()), "units", None, "")
            self.covered.append(rate.ci_low <= 1 / truth <= rate.ci_high)

    def share(self, state: CourseState) -> float:
        return self.states.count(state) / len(self.states)

    def coverage(self) -> str:
        if len(self.covered) < len(self.states) / 2:
            return ""
        share = float(np.mean(self.covered))
        return f"{share:.1%} ± {1.96 * math.sqrt(share * (1 - share) / len(self.covered)):.1%}"


def measure(generator: Callable, arguments: tuple, series: int, rng: np.random.Generator) -> Tally:
    tally = Tally()
    for _ in range(series):
        tally.take(*generator(rng, *arguments))
    return tally


def fixed(series: int, seed: int) -> None:
    print("| kind | intervals | noise | right class | called that | coverage |\n|---|---|---|---|---|---|")
    for name, generator, given, wanted in FIXED:
        tally = measure(generator, given, series, np.random.default_rng(seed))
        row = (name, f"{given[0]}", f"{given[1]:.0%}", wanted.value, f"{tally.share(wanted):.1%}", tally.coverage())
        print("| " + " | ".join(row) + " |", flush=True)


def kept_out(series: int, seed: int) -> None:
    print("| kind | right class | called that | coverage |\n|---|---|---|---|")
    for name, generator, wanted in HELD_OUT:
        tally = measure(generator, (), series, np.random.default_rng(seed))
        print(f"| {name} | {wanted.value} | {tally.share(wanted):.1%} | {tally.coverage()} |", flush=True)


def compared(series: int, seed: int) -> None:
    print(repeats.comparisons(series, np.random.default_rng(seed + 3)), flush=True)


def logs(series: int, seed: int) -> None:
    """The recorded series, which are neither drawn nor repeated."""
    del series, seed
    print(recorded.table(), flush=True)


PARTS = {
    "fixed": fixed,
    "kept-out": kept_out,
    "recorded": logs,
    "compare": compared,
}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=1000, help="series of each kind (1000: about 15 minutes)")
    parser.add_argument("--seed", type=int, default=20261121)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all of them by default")
    options = parser.parse_args(arguments)
    print(f"{options.series} series of each kind, seed {options.seed}")
    for part in options.parts or PARTS:
        print()
        PARTS[part](options.series, options.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
