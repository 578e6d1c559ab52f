"""How long a gang waits under an endless stream of small runs: ``python -m bench.overtaking``.

``decide`` itself places the runs; clock, durations (lognormal, seeded) and processes are the simulation's. The wait of
the gang begins when it is the first in the queue. It is set against what the longest run of that moment had left: who
wants all nodes and ends nobody cannot wait less. Where earlier runs of the cells are known others may have what is kept
for the gang in the meantime: how much more of the cluster is busy then while it waits. Prints Markdown;
docs/build/benchmarks.md quotes it.
"""

import argparse
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Any

from orchestrator.domain.asked.placement import Node, Placement
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.runs.run import Run, RunState
from orchestrator.services.reconcile.decisions import Launch, decide
from orchestrator.services.reconcile.situation import OpenAttempt, Situation, Word, all_uses
from tests.unit import builders as make

SPREAD = 1.0  # of the logarithm of durations of cells: the longest of a hundred is some hundred times the shortest
WITHIN = 0.1  # of the logarithm of durations of one cell's runs
CELLS, EARLIER = 20, 20  # of the stream, and runs of each of them that are known
NEVER = 200  # of the gang's fellow runs that end: beyond so many times the cluster it is not waited for any more
GANG = "gang"


@dataclass(frozen=True)
class Case:
    """A cluster of ``nodes`` with ``devices`` each; what waits there, and the kinds of runs that go on coming."""

    nodes: int
    devices: int
    gang: Plan
    stream: Sequence[Plan]


def _plan(topology: str, exclusive: str = "node", **changes: object) -> Plan:
    return make.plan(topology=topology, exclusive=exclusive, fabric="ethernet", **changes)


ONE, SHARED = _plan("1x1"), _plan("1x1", "device")
CASES = {
    "2 nodes, all of them, among 1x1": Case(2, 1, _plan("2x1"), [ONE]),
    "16 nodes, all of them, among 1x1": Case(16, 1, _plan("16x1"), [ONE]),
    "16 nodes, 12 of them, among 1x1 and 2x1": Case(16, 1, _plan("12x1"), [ONE, _plan("2x1")]),
    "4 nodes x 8, all of them, among 1x1 that share": Case(4, 8, _plan("4x8"), [SHARED]),
    "4 nodes x 8, 2 of them, among 1x1 that share and 1x1 that do not": Case(4, 8, _plan("2x8"), [SHARED, ONE]),
    "4 nodes x 8, 4 devices of each, among 1x1 that share": Case(4, 8, _plan("4x4", "device"), [SHARED]),
    "1 node x 8, 6 devices, among 1x1 and 1x2 that share": Case(
        1, 8, _plan("1x6", "device"), [SHARED, _plan("1x2", "device")]
    ),
}


class Simulation:
    """A queue that never ends, on a cluster where whatever is placed begins at once and ends when it is due. ``known``:
    how long earlier runs took is."""

    def __init__(self, case: Case, seed: int, known: bool = False) -> None:
        self.case = case
        self.now = 0.0
        self.busy_s = 0.0  # of devices
        self.used_s: dict[str, float] = {}  # of devices, by owner, of runs that have ended
        self._chance = random.Random(seed)
        self._usual_s: dict[str, float] = {}  # by cell, the median
        self._durations: dict[str, list[float]] = {}
        self._known = known
        self.nodes: list[Node] = [make.node(f"n{k:02}", case.devices) for k in range(case.nodes)]
        self.queued: list[Run] = []
        self.running: dict[str, tuple[Run, float]] = {}
        self._made = 0

    def add(self, run_id: str, plan: Plan, owner: str = "") -> None:
        """Queue a run behind the others."""
        self._made += 1
        if plan.cell_key not in self._usual_s:
            self._usual_s[plan.cell_key] = self._chance.lognormvariate(0.0, SPREAD)
            self._durations[plan.cell_key] = [self._lasts_s(plan) for _ in range(EARLIER)]
        self.queued.append(make.run(run_id, plan=plan, created_at=float(self._made), owner=owner))

    def fill(self) -> None:
        """So many small runs wait that they could take the whole cluster."""
        for _ in range(self.case.nodes * self.case.devices + len(self.case.stream) - len(self.queued)):
            plan = self._chance.choice(self.case.stream)
            self.add(f"small_{self._made}", replace(plan, seed=self._chance.randrange(CELLS)))

    def passes(self) -> bool:
        """Place what can be placed, and whether the gang is the first of those that still wait."""
        open_runs = [run for run, _ in self.running.values()]
        words = {run.attempt.id: _runs_on(run.attempt.placement) for run in open_runs if run.attempt}
        durations = self._durations if self._known else {}
        uses = all_uses(self.used_s, open_runs, self.now)
        runs = [*open_runs, *self.queued]
        situation = Situation(runs, self.nodes, words, uses=uses, durations=durations, at=self.now)
        actions = decide(situation)
        assert actions == decide(situation)
        for action in actions:
            if isinstance(action, Launch):
                self._begin(action)
        return bool(self.queued) and self.queued[0].id == GANG

    def end_next(self) -> None:
        """Go on to when the next run ends."""
        run_id, (_, end) = min(self.running.items(), key=lambda one: one[1][1])
        # Who has a whole node to itself keeps all of it from others.
        busy = sum(
            run.devices if run.plan.exclusive == "device" else run.plan.nodes * self.case.devices
            for run, _ in self.running.values()
        )
        self.busy_s += busy * (end - self.now)
        self.now = end
        run, _ = self.running.pop(run_id)
        assert run.attempt is not None
        self.used_s[run.owner] = self.used_s.get(run.owner, 0.0) + run.devices * (end - run.attempt.created_at)

    def left_s(self) -> float:
        """What is left of the run that ends last."""
        return max(end for _, end in self.running.values()) - self.now

    def _begin(self, launch: Launch) -> None:
        run = launch.run
        self.queued.remove(run)
        changes: dict[str, Any] = {"placement": launch.placement, "created_at": self.now, "lent_by": launch.lent_by}
        begun = replace(run, state=RunState.RUNNING, attempts=(make.attempt(run.id, **changes),))
        self.running[run.id] = (begun, self.now + self._lasts_s(run.plan))

    def _lasts_s(self, plan: Plan) -> float:
        return self._usual_s[plan.cell_key] * self._chance.lognormvariate(0.0, WITHIN)


def _runs_on(placement: Placement) -> OpenAttempt:
    return OpenAttempt(dict.fromkeys(placement.nodes, Word.RUNNING), frozenset())


def wait(case: Case, seed: int, known: bool = False) -> tuple[float, float]:
    """(the wait of the gang from when it is the first, over what was left then of the longest run; how much of the
    cluster was busy meanwhile, 0 to 1). The wait is infinite where it was not placed within ``NEVER`` times as many
    small runs as the cluster holds."""
    one = Simulation(case, seed, known)
    for _ in _endless(one, 3):
        pass
    one.add(GANG, case.gang)
    first_at = least = None
    for is_first in _endless(one, NEVER):
        if first_at is None and is_first:
            first_at, least, one.busy_s = one.now, one.left_s(), 0.0
        if GANG in one.running:
            if first_at is None or not least:
                return 0.0, 1.0
            waited_s = one.now - first_at
            return waited_s / least, one.busy_s / waited_s / (case.nodes * case.devices)
    return float("inf"), 1.0


def _endless(one: Simulation, times: int) -> Iterator[bool]:
    """Let the simulation go on until so many times what the cluster holds has ended; after each pass whether the gang
    is the first."""
    for _ in range(times * one.case.nodes * one.case.devices):
        one.fill()
        yield one.passes()
        one.end_next()


def unequal(seed: int, owners: int = 20, ended: int = 4000) -> float:
    """How far the device-seconds of an owner are from an equal part at most, as a share of it, where all of them always
    wait on 16 nodes, each with runs of a length of its own."""
    one = Simulation(CASES["16 nodes, all of them, among 1x1"], seed)
    plans = {f"o{number}": replace(ONE, seed=number) for number in range(owners)}
    for owner, plan in plans.items():
        for number in range(16):
            one.add(f"{owner} {number}", plan, owner)
    for number in range(ended):
        one.passes()
        before = set(one.running)
        one.end_next()
        (over,) = before.difference(one.running)
        owner = over.split()[0]
        one.add(f"{owner} {16 + number}", plans[owner], owner)
    equal = sum(one.used_s.values()) / owners
    return max(abs(used / equal - 1.0) for used in one.used_s.values())


def filling_s(nodes: int, plan: Plan, owners: int = 20) -> float:
    """Seconds a placement of a pass that fills empty nodes of 8 devices with runs of so many owners."""
    empty = [make.node(f"n{number}", 8) for number in range(nodes)]
    runs = [
        make.run(f"r{number}", plan=plan, created_at=float(number), owner=f"o{number % owners}")
        for number in range(nodes if plan.exclusive == "node" else 8 * nodes)
    ]
    begun = time.perf_counter()
    launched = [one for one in decide(Situation(runs, empty)) if isinstance(one, Launch)]
    assert len(launched) == len(runs)
    return (time.perf_counter() - begun) / len(runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=50)
    seeds = range(parser.parse_args().seeds)
    print(
        "| waits for | median | largest | busy | with guests: median | largest | busy |\n|---|---|---|---|---|---|---|"
    )
    for name, case in CASES.items():
        alone, guests = ([wait(case, seed, known) for seed in seeds] for known in (False, True))
        told = [
            f"{median(r for r, _ in w):.2f} x | {max(w)[0]:.2f} x | {fmean(b for _, b in w):.0%}"
            for w in (alone, guests)
        ]
        print(f"| {name} | {' | '.join(told)} |")
    apart = [unequal(seed) for seed in range(5)]
    print(f"\nDevice-seconds of 20 owners who all wait, from an equal part at most: {max(apart):.1%}")
    print("\n| a placement, filling 1,000 nodes of 8 / 100 | median | largest |\n|---|---|---|")
    for name, plan in {"whole nodes": ONE, "devices": SHARED}.items():
        ratios = [filling_s(1000, plan) / filling_s(100, plan) for _ in range(5)]
        print(f"| {name} | {median(ratios):.2f} x | {max(ratios):.2f} x |")


if __name__ == "__main__":
    main()
