"""How often a series of tries keeps an edit that changes nothing, and one that gains 2 %, and how often one script is
told to differ from itself: ``python -m bench.tries``.

Prints Markdown; docs/use/exec.md quotes it. All by the product's rule, over rates of recorded processes: a run is the
mean of 30 steps in a row of one of them, drawn anew for each side of each pair.
"""

import json
import sys
from pathlib import Path

import numpy as np

from orchestrator.analysis.statistics import tries
from orchestrator.analysis.statistics.blocks import compare_groups

RECORDED = Path(__file__).parent / "noise" / "solo.json"
STEPS = 30
SERIES, TRIES, PAIRS = 200, 100, 12
RUNS = 6  # of each side, where nobody says how many
GAIN = 0.02
BETWEEN = 0.01  # deviation between processes at which the gain is to be seen


def rates(rng, shape):
    """Logarithms of the rates of runs, around 0, as far apart as the recorded ones are."""
    recorded = [np.asarray(one) for one in json.loads(RECORDED.read_text())["step_s"]]
    means = [np.convolve(one, np.full(STEPS, 1 / STEPS), "valid") for one in recorded]
    known = -np.log(np.concatenate(means))
    return rng.choice(known - known.mean(), shape)


def kept(rng, number, gain=0.0, between=None, count=SERIES, pairs=PAIRS):
    """For each of ``count`` series, whether try ``number`` keeps an edit that gains ``gain``; the deviation of runs
    is the recorded one, or scaled to ``between``."""
    noise = rates(rng, (2, count, pairs))
    noise *= 1.0 if between is None else between / noise.std()
    differences = noise[1] - noise[0] + np.log1p(gain)
    errors = differences.std(axis=1, ddof=1) / np.sqrt(pairs)
    means = differences.mean(axis=1)
    found = [tries.judge(mean, error, pairs - 1, number) for mean, error in zip(means, errors, strict=True)]
    return np.array([one.kept for one in found])


def clean_series(rng, count=SERIES, edits=TRIES):
    """The share of series of ``edits`` that change nothing in which none is kept."""
    return 1 - np.any([kept(rng, number, count=count) for number in range(1, edits + 1)], axis=0).mean()


def told_to_differ(rng, count=SERIES, runs=RUNS):
    """The share of ``count`` comparisons of a script with itself, ``runs`` of each side, that call it another speed."""
    sides = np.exp(rates(rng, (count, 2, runs)))
    groups = [{name: dict(enumerate(one)) for name, one in zip("AB", pair, strict=True)} for pair in sides]
    found = [compare_groups([group])[0][0].verdict for group in groups]
    return np.isin(found, ("faster", "slower")).mean()


def main():
    rng = np.random.default_rng(32)
    print(f"| {SERIES} series, {PAIRS} pairs a try | |\n|---|---|")
    print(f"| {TRIES} edits that change nothing: none kept | {clean_series(rng):.1%} of series |")
    for number in (1, 2, 3, 5, 10, 30, 100):
        share = kept(rng, number, GAIN, BETWEEN, 2000).mean()
        print(f"| an edit that gains {GAIN:.0%}, kept as try {number} | {share:.1%} |")
    for count in (SERIES, 5000):
        share = told_to_differ(rng, count)
        print(f"| a script beside itself, {RUNS} runs each: told to differ | {share:.1%} of {count:,} comparisons |")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
