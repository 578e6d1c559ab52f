"""How often the analysis is right, by simulation: ``python -m tests.benchmarks.coverage [--series N] [--seed N]``.

Prints, as Markdown, the share of series of each kind that get their class, and how often the 95 % interval of those
called steady holds the truth; then the same for runs that the stopping rule ended. docs/statistics.md quotes it.
"""

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from orchestrator.analysis.steady import SteadyClass, judge
from tests.benchmarks import simulated
from workers.node.stopping import StoppingRule

STEADY, DRIFTING, UNSTEADY = SteadyClass.STEADY, SteadyClass.DRIFTING, SteadyClass.UNSTEADY
LIMITS = {"max_steps": 1000, "half_width_ratio": 0.01, "min_effective_intervals": 50, "max_duration_s": None}

# name, generator, its arguments, the class that is right
FIXED = [
    ("white noise", simulated.level, (120, 0.03), STEADY),
    ("AR(1) 0.4", simulated.level, (250, 0.03, 0.4), STEADY),
    ("AR(1) 0.5", simulated.level, (300, 0.03, 0.5), STEADY),
    ("AR(1) 0.8", simulated.level, (900, 0.03, 0.8), STEADY),
    ("ARMA, skewed", simulated.mixed, (600, 0.03), STEADY),
    ("warm-up, exponential", simulated.warmup, (150, 0.03), STEADY),
    ("warm-up, AR(1) 0.5", simulated.warmup, (400, 0.03, 0.5), STEADY),
    ("warm-up, a slower level", simulated.early_shift, (150, 0.03), STEADY),
    ("drift of 0.5 %", simulated.small_drift, (150, 0.03), STEADY),
    ("cycle of 7 intervals", simulated.short_cycle, (150, 0.02), STEADY),
    ("spikes in 3 %", simulated.spikes, (150, 0.03), STEADY),
    ("spikes in 3 %", simulated.spikes, (600, 0.03), STEADY),
    ("Student's t, 3 degrees", simulated.heavy_tails, (150, 0.03), STEADY),
    ("bucketed lengths", simulated.buckets, (150, 0.03), STEADY),
    ("shift of 8 % at 65 %", simulated.shift, (150, 0.03), UNSTEADY),
    ("the same, AR(1) 0.5", simulated.shift, (400, 0.03, 0.5), UNSTEADY),
    ("two cycles in the run", simulated.long_cycle, (150, 0.03), UNSTEADY),
    ("drift of 8 %", simulated.drift, (150, 0.03), DRIFTING),
    ("the same, AR(1) 0.5", simulated.drift, (400, 0.03, 0.5), DRIFTING),
]

# name, generator, its arguments: runs of up to 1000 steps that the rule ends
STOPPED = [
    ("white noise 1 %", simulated.level, (1000, 0.01)),
    ("white noise 5 %", simulated.level, (1000, 0.05)),
    ("AR(1) 0.4, 3 %", simulated.level, (1000, 0.03, 0.4)),
    ("AR(1) 0.8, 3 %", simulated.level, (1000, 0.03, 0.8)),
    ("ARMA, skewed, 3 %", simulated.mixed, (1000, 0.03)),
    ("warm-up, 3 %", simulated.warmup, (1000, 0.03)),
    ("spikes in 3 %, 3 %", simulated.spikes, (1000, 0.03)),
    ("bucketed lengths, 3 %", simulated.buckets, (1000, 0.03)),
]


@dataclass
class Tally:
    states: list[SteadyClass] = field(default_factory=list)
    covered: list[bool] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)

    def take(self, durations: np.ndarray, works: np.ndarray, truth: float) -> None:
        state = judge(durations, works, [1] * len(durations))
        self.states.append(state.state)
        self.steps.append(len(durations))
        if state.state is STEADY:
            kept_s, kept = durations[state.first :], works[state.first :]
            self.covered.append(bool(abs(kept_s.sum() / kept.sum() - truth) <= state.error.half_width / kept.mean()))

    def share(self, state: SteadyClass) -> float:
        return self.states.count(state) / len(self.states)

    def coverage(self) -> str:
        if len(self.covered) < len(self.states) / 2:
            return ""
        share = float(np.mean(self.covered))
        return f"{share:.1%} ± {1.96 * math.sqrt(share * (1 - share) / len(self.covered)):.1%}"


def stopped_at(durations: Sequence[float], works: Sequence[float]) -> int:
    """Return after how many intervals the rule ends the run."""
    rule = StoppingRule(LIMITS)
    for index, (duration, work) in enumerate(zip(durations, works, strict=True)):
        rule.add(float(duration), float(work), 1)
        if rule.decision():
            return index + 1
    return len(durations)


def measure(generator: Callable, arguments: tuple, series: int, rng: np.random.Generator, stop: bool) -> Tally:
    tally = Tally()
    for _ in range(series):
        durations, works, truth = generator(rng, *arguments)
        n = stopped_at(durations, works) if stop else len(durations)
        tally.take(durations[:n], works[:n], truth)
    return tally


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=500, help="series of each kind (500: about 10 minutes)")
    parser.add_argument("--seed", type=int, default=20261121)
    options = parser.parse_args(arguments)
    print(f"{options.series} series of each kind, seed {options.seed}\n")
    print("| kind | intervals | noise | right class | called that | coverage |\n|---|---|---|---|---|---|")
    for name, generator, given, wanted in FIXED:
        tally = measure(generator, given, options.series, np.random.default_rng(options.seed), stop=False)
        row = (name, f"{given[0]}", f"{given[1]:.0%}", wanted.value, f"{tally.share(wanted):.1%}", tally.coverage())
        print("| " + " | ".join(row) + " |", flush=True)
    print(
        "\n| kind, ended by the rule | median steps | 90 % stop by | called steady | coverage |\n|---|---|---|---|---|"
    )
    for name, generator, given in STOPPED:
        tally = measure(generator, given, options.series, np.random.default_rng(options.seed + 1), stop=True)
        median, late = np.percentile(tally.steps, [50, 90])
        row = (name, f"{median:.0f}", f"{late:.0f}", f"{tally.share(STEADY):.1%}", tally.coverage())
        print("| " + " | ".join(row) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
