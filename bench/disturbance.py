"""What tbd's processes take from the training beside them: measured on one trainer, with and without them.

    python -m bench.disturbance [FRAMEWORK …] [--trainers N] [--slices K]

Two trainers differ for as long as they live, so the trainer stays and tbd goes: its server and agent are frozen
(SIGSTOP) and thawed in turn, in the order free, frozen, frozen, free. What counts is the time of the steps in their
timed intervals, as tbd itself reports it; the first step after a switch is left out. A trainer gives one ratio, and the
interval is Student's t over fresh trainers.

What the trainer itself does for tbd (events, the channel, reading the loss) lies between the intervals and is in no
reported time; its share of the clock stands apart. What tbd does at intervals falls due while it is frozen and is done
when it is thawed: so a free slice bears more of it than it would by itself.
"""

import argparse
import json
import math
import os
import signal
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bench.parties import Parties, parties, shares
from bench.ratio import Ratio, pairs_for, ratio
from bench.training import START_S, rig, spec
from tests.support.service import Service, until

FRAMEWORKS = ("pytorch", "tensorflow", "mxnet", "cntk")
ORDER = ("free", "frozen", "frozen", "free")

# Judgements. A slice is some steps long, and short beside what the machine does: on a virtual machine whose steps vary
# by 11 %, slices of 0.75 s give half the error of slices of 3 s in the same time.
SLICE_S, SLICE_STEPS = 0.75, 6
SHARE_S = 12.0
SLICES = 24
# As many as a pilot says, of so many.
TRAINERS, PILOT = 0, 4


@dataclass(frozen=True)
class Step:
    """One timed interval of one step, in seconds of CLOCK_MONOTONIC."""

    end: float
    duration_s: float


@dataclass(frozen=True)
class Slice:
    state: str
    begun: float
    ended: float

    def steps(self, steps: Sequence[Step]) -> list[Step]:
        """The steps that lie wholly inside, without the first of them."""
        inside = [step for step in steps if step.end - step.duration_s >= self.begun and step.end <= self.ended]
        return inside[1:]

    def step_time_s(self, steps: Sequence[Step]) -> float:
        """The mean time of a step in the slice, which holds one to count."""
        return statistics.fmean(step.duration_s for step in self.steps(steps))


@dataclass(frozen=True)
class Trainer:
    """What one trainer showed: its speed beside tbd, relative to that beside a frozen tbd, and its own share."""

    own: float
    between_ratio: float


def of_trainer(slices: Sequence[Slice], steps: Sequence[Step]) -> Trainer:
    """Compare the states block by block (``ORDER``), so that a steady drift of the machine's speed falls out.

    Raises:
        ValueError: there is no whole block, or most of them have a slice without a step to count.
    """
    blocks = [slices[i : i + len(ORDER)] for i in range(0, len(slices), len(ORDER))]
    if not blocks or any(tuple(one.state for one in block) != ORDER for block in blocks):
        raise ValueError("slices come in whole blocks of " + ", ".join(ORDER))
    # A hiccup of the machine may leave a slice without a step to count: its block says nothing.
    logs = [_logs(block, steps) for block in blocks if all(one.steps(steps) for one in block)]
    if len(logs) < len(blocks) / 2:
        raise ValueError(
            f"in {len(blocks) - len(logs)} of {len(blocks)} blocks a slice holds no step: make them longer"
        )
    own = statistics.fmean(log["frozen"] - log["free"] for log in logs)
    return Trainer(math.exp(own), between_intervals(steps))


def _logs(block: Sequence[Slice], steps: Sequence[Step]) -> dict[str, float]:
    """state -> mean logarithm of the time of a step."""
    times = {state: [math.log(one.step_time_s(steps)) for one in block if one.state == state] for state in ORDER}
    return {state: statistics.fmean(values) for state, values in times.items()}


def between_intervals(steps: Sequence[Step]) -> float:
    """The share of the clock in which the trainer is not in a timed interval, from the first step's end to the last's.

    Raises:
        ValueError: fewer than two steps.
    """
    if len(steps) < 2:
        raise ValueError("two steps or more are needed")
    elapsed_s = steps[-1].end - steps[0].end
    return 1.0 - math.fsum(step.duration_s for step in steps[1:]) / elapsed_s


@contextmanager
def training(service: Service, framework: str) -> Iterator[Path]:
    """A run of the service in its timed phase, until the block ends; the file of its events."""
    experiment = service.submit(spec(framework))

    def events() -> list[Path]:
        return [path for path in service.data_dir.glob("**/worker0.events.jsonl") if timed(path)]

    try:
        yield until(events, START_S, 0.5)[0]
    finally:
        service.call("POST", f"/api/v1/experiments/{experiment}/cancel")
        service.wait(experiment)


def timed(path: Path) -> list[Step]:
    """The timed steps so far."""
    lines = [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
    found = [line for line in lines if line["kind"] == "interval" and line["data"]["phase"] == "timed"]
    return [Step(line["t"], line["data"]["duration_s"] / line["data"]["n"]) for line in found]


def slice_s(steps: Sequence[Step]) -> float:
    """How long a slice has to be for steps like these."""
    return max(SLICE_S, SLICE_STEPS * statistics.median(step.duration_s for step in steps))


def take_slices(found: Parties, blocks: int, duration_s: float) -> list[Slice]:
    """Let each state have its slices. All are free afterwards, whatever happens."""
    slices = []
    try:
        for state in ORDER * blocks:
            _send(found.own, signal.SIGCONT if state == "free" else signal.SIGSTOP)
            begun = time.monotonic()
            time.sleep(duration_s)
            slices.append(Slice(state, begun, time.monotonic()))
    finally:
        _send(found.own, signal.SIGCONT)
    return slices


def _send(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def measure(service: Service, framework: str, trainers: int, slices: int) -> list[Ratio]:
    """Measure ``framework`` on fresh ``trainers`` with ``slices`` slices of each state; print the shares of a core.
    Where ``trainers`` is 0, they are as many as a pilot says."""
    if not trainers:
        trainers = pairs_for([one.own for one in _each(service, framework, PILOT, slices)], [1.0] * PILOT)
    found = list(_each(service, framework, trainers, slices))
    ones = [1.0] * trainers
    return [
        ratio(f"speed beside tbd / tbd frozen, {framework}", "lower bound >= 0.98", [one.own for one in found], ones),
        ratio(
            f"time in intervals / elapsed time of the trainer, {framework}",
            "reported",
            [1.0 - one.between_ratio for one in found],
            ones,
        ),
    ]


def _each(service: Service, framework: str, trainers: int, slices: int) -> Iterator[Trainer]:
    for number in range(1, trainers + 1):
        with training(service, framework) as events:
            used = shares(service, SHARE_S) if number == 1 else None
            taken = take_slices(parties(service), max(1, slices // 2), slice_s(timed(events)))
            one = of_trainer(taken, timed(events))
        told = f"{one.own:.4f}, between intervals {one.between_ratio:.2%}"
        print(f"  {framework} trainer {number}/{trainers}: {told}", file=sys.stderr, flush=True)
        if used is not None:
            text = ", ".join(f"{whose} {share:.2%}" for whose, share in used.items())
            print(f"{'of a core beside ' + framework:<62} {text}", flush=True)
        yield one


def measure_all(service: Service, trainers: int) -> list[Ratio]:
    """For ``make bench``."""
    return [one for framework in FRAMEWORKS for one in measure(service, framework, trainers, SLICES)]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("frameworks", nargs="*", choices=[[], *FRAMEWORKS], help="which; all where none is named")
    trainers = f"fresh trainers of each, 2 or more; 0, the default: as many as a pilot of {PILOT} says"
    parser.add_argument("--trainers", type=int, default=TRAINERS, help=trainers)
    parser.add_argument("--slices", type=int, default=SLICES, help="slices of each state a trainer, even (%(default)s)")
    parser.add_argument("--out", type=Path, default=Path("disturbance.json"))
    options = parser.parse_args(arguments)
    for number in (signal.SIGTERM, signal.SIGHUP):  # unwinds, as SIGINT does: no process is left behind frozen
        signal.signal(number, lambda received, _: sys.exit(128 + received))
    found: list[Ratio] = []
    for framework in options.frameworks or FRAMEWORKS:
        with rig() as service:
            for one in measure(service, framework, options.trainers, options.slices):
                print(one, flush=True)
                found.append(one)
    options.out.write_text(json.dumps([one.to_json() for one in found], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
