"""How often the regression gate cries wolf, and what it sees: ``python -m bench.gate [PART …]``, ``make gate-figures``.

Prints Markdown; docs/read_results/gate.md quotes it. All by the product's functions over series whose truth is known
(``bench.nights``). ± is the simulation's own 95 % error; an upper bound is Clopper & Pearson's, one-sided 95 %.
"""

import argparse
import sys
from dataclasses import dataclass

import numpy as np
from scipy import special

from bench import machines, nights
from orchestrator.analysis.gate import bisecting, candidates, confirmation, sight
from orchestrator.analysis.statistics import autocorrelation, changepoints

NIGHTS = 60
DROP = 0.02
RUN = nights.NOISE * np.sqrt(nights.RUNS)  # deviation of a run
BUDGET = 80  # blocks of one confirmation
PEERS = 5  # times as many series as peers are tried on


def calls(values, kind="step"):
    """The calls of slower nights of one series, in deviations of a night."""
    found = candidates.calls_of(np.asarray(values) * nights.NOISE)
    return [call for call in found if call.size < 0 and call.kind == kind]


def tried(generator, count, rng):
    """Candidates of each of ``count`` series of ``NIGHTS`` nights in which nothing happens: (steps, drifts)."""
    found = generator(rng, (count, NIGHTS))
    return np.array([len(calls(row)) for row in found]), np.array([len(calls(row, "drift")) for row in found])


def z_score(values, threshold=5.0, back=14):
    """A peer: nights further than ``threshold`` deviations below the mean of those before."""
    found = 0
    for night in range(back, len(values)):
        before = values[night - back : night]
        found += values[night] < before.mean() - threshold * before.std(ddof=1)
    return found


def against_last_night(values, ratio=0.02):
    """A peer: nights slower than the one before by ``ratio``."""
    return int(np.count_nonzero(np.diff(values) * nights.NOISE < np.log1p(-ratio)))


def pelt(values, strictness=3.0):
    """A peer: the nights in which the optimal partition of what was known (``changepoints``, spikes clipped, penalty by
    the long-run variance) has a new last segment that is slower."""
    found, last = [], 0
    for night in range(candidates.LEAST_NIGHTS - 1, len(values)):
        seen, _ = autocorrelation.without_spikes(np.asarray(values[: night + 1]))
        cost = changepoints.penalty(autocorrelation.first_long_run_variance(seen), len(seen), strictness)
        points = [0, *changepoints.change_points(seen, cost, candidates.LEAST_SIDE)]
        if len(points) > 1 and points[-1] >= last + candidates.LEAST_SIDE:
            if seen[points[-1] :].mean() < seen[points[-2] : points[-1]].mean():
                found.append(night)
            last = points[-1]
    return found


def runs(rng, shape, kind):
    """What runs differ by, in deviations of a run."""
    if kind == "t, 3 degrees":
        return nights.heavy_tails(rng, shape)
    if kind == "two kinds":
        return rng.choice([-1.0, 1.0], shape)
    if kind == "recorded":
        means = np.log(nights._stretches("solo"))
        return (means[rng.integers(0, len(means), shape)] - means.mean()) / means.std()
    return nights.gaussian(rng, shape)


PROCESSES = ("normal", "t, 3 degrees", "two kinds", "recorded")


def confirmed(rng, difference, loss, kind="normal"):
    """The decision on a candidate that looked slower by ``difference``, where the new subject is slower by ``loss``."""
    size = max(confirmation.ASKED_SHARE * difference, confirmation.LEAST_ASKED)
    plan = confirmation.design(size, RUN * np.sqrt(2), BUDGET)
    logs = RUN * runs(rng, (2, plan.most_blocks), kind) + 0.03 * rng.standard_normal(plan.most_blocks)  # of the block
    logs[1] += np.log1p(-loss)
    return confirmation.judge(plan, np.exp(logs[0]), np.exp(logs[1]))


@dataclass(frozen=True)
class Found:
    """What became of a true drop: nights until it was called and until it was told (None: never), the decision."""

    called: int | None
    told: int | None
    decision: confirmation.Decision | None


def dropped(row, rng, drop=DROP):
    """A drop from one of the nights 20 to 40 on."""
    begins = int(rng.integers(20, 41))
    slower = row + np.log1p(-drop) / nights.NOISE * (np.arange(len(row)) >= begins)
    called = None
    for call in calls(slower):
        if call.called < begins:
            continue
        after = call.called - begins + 1
        called = called or after
        decision = confirmed(rng, -np.expm1(call.size), drop)
        if decision.answer == "slower":
            return Found(called, after, decision)
    return Found(called, None, None)


def nightly(rng, series, generator=nights.shocks):
    """(false alerts that are delivered, trials, runs of trials over runs of nights) in ``NIGHTS`` nights of correlated
    series in which nothing happens."""
    values = generator(rng, (series, NIGHTS)) * nights.NOISE
    found = [
        one
        for number, row in enumerate(values)
        for one in candidates.candidates_of(
            f"s{number}",
            [
                candidates.Session(night * 86_400.0, f"n{number // nights.PER_NODE} cpu:0", f"v{night // 7}", value)
                for night, value in enumerate(row)
            ],
        )
        if one.kind == "step"
    ]
    causes = candidates.causes_of(found)
    decisions = [confirmed(rng, max(-one.difference for one in cause), 0.0) for cause in causes]
    delivered = sum(one.answer == "slower" for one in decisions)
    spent = sum(2 * one.blocks for one in decisions)
    return delivered, len(causes), spent / (series * NIGHTS * nights.RUNS)


def errors_of_order(rng, count, blocks=12, process=0.005):
    """(root mean square errors of a ratio of equal subjects that alternate, and of one side after the other) on a
    machine of levels of 7 % that last 30 s on average; a run takes 3 s to start and 6 s."""
    slots = 90  # of 0.1 s
    state = np.cumsum(rng.random((count, 2 * blocks * slots)) < machines.INTERVAL_S / 30.0, axis=1)
    levels = 0.07 * ((state + rng.integers(0, 2, (count, 1))) % 2 - 0.5)
    seen = levels.reshape(count, 2 * blocks, slots)[..., machines.START_UP :].mean(axis=2)
    seen = seen + process * rng.standard_normal(seen.shape)
    flips = rng.choice([-1.0, 1.0], (count, blocks))
    alternating = ((seen[:, 0::2] - seen[:, 1::2]) * flips).mean(axis=1)
    one_after_the_other = seen[:, :blocks].mean(axis=1) - seen[:, blocks:].mean(axis=1)
    return float(np.sqrt((alternating**2).mean())), float(np.sqrt((one_after_the_other**2).mean()))


def of_candidates(count, seed):
    _row("nights of nothing", "tried, a series x 60 nights", "drifts", "PELT", "z-score of 5", "2 % against last night")
    _row(*["---"] * 6)
    for name, generator in nights.KINDS.items():
        rng = np.random.default_rng(seed)
        steps, drifts = tried(generator, count, rng)
        peers = generator(rng, (max(count // PEERS, 4), NIGHTS))
        others = [[peer(row) for row in peers] for peer in (lambda row: len(pelt(row)), z_score, against_last_night)]
        _row(name, _mean(steps), _mean(drifts), *(f"{np.mean(one):.2f}" for one in others))


def of_ramps(count, seed):
    found, _ = nights.ramps(np.random.default_rng(seed), (count, NIGHTS))
    steps = [bool(calls(row)) for row in found]
    drifts = [bool(calls(row, "drift")) for row in found]
    _row("ramps of 2 to 6 % over 20 to 40 nights", "called a step", "called a drift")
    _row(*["---"] * 3)
    _row(str(count), _share(steps), _share(drifts))


def of_drops(count, seed):
    _row(
        "a drop of 2 %", "called, 90th percentile", "called within 3 nights", "told, 90th percentile", "missed", "held"
    )
    _row(*["---"] * 6)
    for name, generator in nights.KINDS.items():
        rng = np.random.default_rng(seed)
        found = [dropped(row, rng) for row in generator(rng, (count, NIGHTS))]
        called = np.array([one.called or np.inf for one in found])
        told = np.array([one.told or np.inf for one in found])
        truth = [one.decision.low <= -DROP <= one.decision.high for one in found if one.decision]
        missed = int(np.isinf(told).sum())
        nine = [f"{np.quantile(one, 0.9, method='higher'):.0f} nights" for one in (called, told)]
        bound = f"{missed / count:.1%} (at most {_upper(missed, count):.1%})"
        _row(name, nine[0], _share(called <= 3), nine[1], bound, _share(truth))


def seen(generator, count, rng, nights_before=30):
    """Of series of which a drop of what ``sight`` says is seen comes: (those drops, whether it was called in time)."""
    rows = generator(rng, (count, nights_before + sight.WITHIN)) * nights.NOISE
    drops = [sight.sight_of(row[:nights_before]).drop for row in rows]
    called = []
    for row, drop in zip(rows, drops, strict=True):
        slower = row + np.log1p(-drop) * (np.arange(len(row)) >= nights_before)
        called.append(any(call.called >= nights_before for call in calls(slower / nights.NOISE)))
    return np.array(drops), np.array(called)


def of_sight(count, seed):
    _row("30 nights, then the smallest drop that is said to be seen", "that drop, middle", "called within 3 nights")
    _row(*["---"] * 3)
    for name, generator in nights.KINDS.items():
        drops, called = seen(generator, count, np.random.default_rng(seed))
        _row(name, f"{np.median(drops):.2%}", _share(called))


def of_confirmations(count, seed):
    _row(
        "runs differ",
        "equal: told slower",
        "blocks",
        "slower by what is asked: told no loss",
        "2 %: told",
        "blocks",
        "held",
    )
    _row(*["---"] * 7)
    for kind in PROCESSES:
        rng = np.random.default_rng(seed)
        equal = [confirmed(rng, DROP, 0.0, kind) for _ in range(count)]
        asked = [confirmed(rng, DROP, confirmation.ASKED_SHARE * DROP, kind) for _ in range(count // 4)]
        slower = [confirmed(rng, DROP, DROP, kind) for _ in range(count // 4)]
        held = [one.low <= -DROP <= one.high for one in slower if one.answer == "slower"]
        _row(
            kind,
            _share([one.answer == "slower" for one in equal], 2),
            f"{np.mean([one.blocks for one in equal]):.1f}",
            _share([one.answer == "no_such_loss" for one in asked], 2),
            _share([one.answer == "slower" for one in slower]),
            f"{np.mean([one.blocks for one in slower]):.1f}",
            _share(held),
        )


def of_nightlies(count, seed):
    _row("200 correlated series x 60 nights", "tried", "false alerts delivered", "device time of trials")
    _row(*["---"] * 4)
    for name in ("bad nights of a node", "Gaussian", "AR(1) 0.5", "t, 3 degrees"):
        rng = np.random.default_rng(seed)
        found = [nightly(rng, 200, nights.KINDS[name]) for _ in range(count)]
        delivered, trials, spent = (np.array(one) for one in zip(*found, strict=True))
        _row(name, _mean(trials), _mean(delivered), f"{spent.mean():.2%} of that of the nights")


def bisected(rng, among, loss, process):
    """One search for the first slower one among so many: (whether it was found, runs that it took)."""
    first, runs = int(rng.integers(1, among)), 0
    search, asked = bisecting.begin(among), DROP
    place = among - 1
    while place is not None:
        plan = confirmation.design(asked, process * np.sqrt(2.0), BUDGET, bisecting.level(among))
        rates = np.exp(rng.normal(0.0, process, (2, plan.most_blocks)))
        rates[1] *= 1.0 - loss * (place >= first)
        found = _judged(plan, rates)
        runs += 2 * found.blocks
        if place == among - 1:  # the first question, which tells how much to ask for
            if found.answer != "slower":
                return False, runs
            asked = bisecting.asked(found.effect)
        else:
            search = search.after(place, found.answer)
        place = search.next()
    return list(search.suspects()) == [first], runs


def _judged(plan, rates):
    """What the blocks told, one after the other."""
    for blocks in range(confirmation.LEAST_BLOCKS, plan.most_blocks + 1):
        found = confirmation.judge(plan, rates[0, :blocks], rates[1, :blocks])
        if found.answer != "go_on":
            break
    return found


def of_bisection(count, seed):
    rng, among = np.random.default_rng(seed), 16
    found = [bisected(rng, among, 0.05, 0.015) for _ in range(count)]
    right, fixed = [one for one, _ in found], 20 * bisecting.questions(among)
    mean = np.mean([runs for _, runs in found])
    _row("5 % among 16 commits, processes 1.5 %", "right", "runs", "of a fixed 10 a side")
    _row(*["---"] * 4)
    _row(f"{count} searches", _share(right), f"{mean:.0f}", f"{mean / fixed:.2f}")


def of_order(count, seed):
    _row("runs differ", "alternating", "one side after the other", "ratio")
    _row(*["---"] * 4)
    for process in (0.005, 0.015):
        pair = errors_of_order(np.random.default_rng(seed), count, process=process)
        _row(f"{process:.1%}", *(f"{one:.2%}" for one in pair), f"{pair[0] / pair[1]:.2f}")


def _share(held, digits=1):
    """A share with its interval: Wilson's would be no narrower here."""
    n = len(held)
    share = float(np.mean(held)) if n else float("nan")
    return f"{share:.{digits}%} ± {1.96 * np.sqrt(share * (1 - share) / max(n, 1)):.{digits}%}"


def _mean(counts):
    return f"{np.mean(counts):.3f} ± {1.96 * np.std(counts) / np.sqrt(len(counts)):.3f}"


def _upper(events, n):
    return 1.0 if events >= n else float(special.betaincinv(events + 1, n - events, 0.95))


def _row(*fields):
    print(f"| {' | '.join(fields)} |", flush=True)


# part -> (function, cases of each kind)
PARTS = {
    "candidates": (of_candidates, 2000),
    "ramps": (of_ramps, 2000),
    "drops": (of_drops, 1000),
    "sight": (of_sight, 1000),
    "confirmations": (of_confirmations, 20_000),
    "nightlies": (of_nightlies, 30),
    "order": (of_order, 2000),
    "bisection": (of_bisection, 1000),
}


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="of the cases (1: about half an hour of one core)")
    parser.add_argument("--seed", type=int, default=20261125)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all of them by default")
    options = parser.parse_args(arguments)
    for part in options.parts or PARTS:
        function, count = PARTS[part]
        count = max(4, round(options.share * count))
        print(f"\n{part}: {count} of each, seed {options.seed}\n", flush=True)
        function(count, options.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
