"""Every framework and strategy on every topology, on the hosts of the bench; the table of docs/use/matrix.md.

    python -m tests.cluster.matrix [--out docs/use/matrix.md] [--steps 240] [--only pytorch]

With --out the table between the file's two marks is replaced. ResNet-50 in its smallest size, synthetic images; the
baseline of a speed-up is the same strategy, in the same interpreter, on one device.
"""

import argparse
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from orchestrator.domain.asked.catalog import Catalog, StrategyFacts
from orchestrator.services.facts.catalog import load_catalog
from tests.cluster import hosts
from tests.cluster.bench import Bench, Layout, running
from workers.node import interpreters

MODEL = "resnet-50"
BATCH = 4
# Bytes of the gradients of one of its steps; each of two ranks sends them once at least, whatever the algorithm (ring
# all-reduce: 2 (n - 1) / n times).
GRADIENTS = 511514 * 4
# Where each topology runs: names of the bench's hosts.
PLACES = {"1x1": ("one",), "1x2": ("three",), "2x1": ("one", "two")}
# Judgement: a framework's import on a busy core takes most of it.
RUN_S = 600.0
MARKS = ("<!-- matrix: made by python -m tests.cluster.matrix -->", "<!-- end of matrix -->")


@dataclass(frozen=True)
class Cell:
    """One strategy on one topology."""

    framework: str
    strategy: StrategyFacts
    topology: str

    def __str__(self) -> str:
        return f"{self.framework}-{self.strategy.name}-{self.topology}"

    @property
    def missing(self) -> str | None:
        """Why it cannot run on this machine: its interpreter is not built."""
        found = interpreters.resolve(self.strategy.interpreter)
        return None if found.ready else found.reason

    def spec(self, steps: int, fabric: str = "ethernet", **more: Any) -> dict[str, Any]:
        """The experiment of this cell alone: one run of ``steps`` steps, or of the least that makes four intervals."""
        fields: dict[str, Any] = {
            "name": "matrix",
            "model": MODEL,
            "size": "tiny",
            "framework": self.framework,
            "strategy": self.strategy.name,
            "topology": self.topology,
            "fabric": fabric if self.topology.startswith("2") else None,
            "per_device_batch_size": BATCH,
            "nodes": {"names": list(PLACES[self.topology])},
            "max_steps": max(steps, 4 * self.strategy.step_multiple),
            "min_measure_s": 3600,  # as many steps as are asked for
            "repeats": 1,
            "max_repeats": 1,
            "timeout_s": RUN_S,
        }
        return fields | more


@dataclass(frozen=True)
class Outcome:
    """What a run told. ``rate`` in images per second; only where ``sound`` may it be compared with anything."""

    cell: Cell
    run: Mapping[str, Any]
    measurements: Mapping[str, Mapping[str, Any]]

    @property
    def completed(self) -> bool:
        return bool(self.run["state"] == "completed")

    @property
    def reasons(self) -> list[str]:
        return [reason["code"] for reason in (self.run["validity"] or {}).get("reasons", [])]

    @property
    def sound(self) -> bool:
        return self.completed and not self.reasons

    @property
    def rate(self) -> float | None:
        found = self.run["throughput"]
        return float(found["value"]) if found else None

    @property
    def replica_distance_ratio(self) -> float | None:
        value = self.measurements.get("replica_distance_ratio", {}).get("value")
        return None if value is None else float(value)


def cells(catalog: Catalog, topologies: Iterable[str] = PLACES) -> list[Cell]:
    """Every framework of the model, each of its strategies, each of ``topologies`` that the strategy reaches."""
    found = []
    for framework in catalog.models[MODEL].frameworks:
        for strategy in catalog.frameworks[framework].strategies.values():
            for topology in topologies:
                nodes, devices = map(int, topology.split("x"))
                if nodes <= strategy.max_nodes and devices <= strategy.max_devices_per_node:
                    found.append(Cell(framework, strategy, topology))
    return found


def carry_out(bench: Bench, cell: Cell, spec: Mapping[str, Any]) -> Outcome:
    """Run the one run of ``spec`` to its end, whatever that is."""
    (run,) = bench.service.wait(bench.service.submit(spec), RUN_S, 0.5)
    measured = bench.service.call("GET", f"/api/v1/runs/{run['id']}/measurements")["items"]
    return Outcome(cell, run, {item["metric"]: item for item in measured})


def table(outcomes: Sequence[Outcome]) -> str:
    """The outcomes as Markdown."""
    base = {(str(one.cell.framework), one.cell.strategy.name): one for one in outcomes if one.cell.topology == "1x1"}
    lines = [
        "| framework | strategy | interpreter | topology | images/s | speed-up | replicas | disturbed by |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in outcomes:
        alone = base.get((one.cell.framework, one.cell.strategy.name))
        cells_ = [
            one.cell.framework,
            f"`{one.cell.strategy.name}`",
            one.cell.strategy.interpreter,
            one.cell.topology,
            _rate(one),
            _speed_up(one, alone),
            _replicas(one),
            ", ".join(one.reasons) or ("" if one.completed else str((one.run["failure"] or {}).get("kind"))),
        ]
        lines.append(f"| {' | '.join(cells_)} |")
    return "\n".join(lines)


def _rate(one: Outcome) -> str:
    if one.rate is None:
        return one.run["state"]
    return f"{one.rate:.3g}" if one.sound else f"~{one.rate:.3g}"


def _speed_up(one: Outcome, alone: Outcome | None) -> str:
    if one.cell.topology == "1x1" or alone is None or not one.rate or not alone.rate:
        return ""
    return f"{'' if one.sound and alone.sound else '~'}{one.rate / alone.rate:.2f}"


def _replicas(one: Outcome) -> str:
    distance = one.replica_distance_ratio
    if distance is None:
        return "" if one.cell.topology == "1x1" else "not compared"
    if distance == 0:
        return "equal"
    return f"{distance:.1e} apart, {_allowed(one.cell.strategy)}"


def _allowed(strategy: StrategyFacts) -> str:
    return f"{strategy.replica_tolerance:.0e} allowed" if strategy.synchronous else "asynchronous"


def put_into(path: Path, text: str, marks: tuple[str, str] = MARKS) -> None:
    """Replace what stands between the marks in a file.

    Raises:
        ValueError: it has no marks.
    """
    before, mark, rest = path.read_text().partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not mark or not end:
        raise ValueError(f"{path} has no lines {marks[0]} and {marks[1]}")
    path.write_text(f"{before}{mark}\n\n{text}\n\n{end}{after}")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="the file whose table is replaced")
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--only", action="append", help="a framework; may be given several times")
    options = parser.parse_args()
    if hosts.refusal():
        print(hosts.refusal(), file=sys.stderr)
        return 2
    wanted = [cell for cell in cells(load_catalog()) if not options.only or cell.framework in options.only]
    outcomes = list(_all(wanted, options.steps))
    text = f"{_heading(options.steps)}\n\n{table(outcomes)}"
    print(text)
    if options.out:
        put_into(options.out, text)
    return 0 if all(one.completed for one in outcomes) else 1


def _all(wanted: Sequence[Cell], steps: int) -> Iterable[Outcome]:
    with running(Layout.of_this_machine()) as bench:
        for cell in wanted:
            if cell.missing:
                print(f"{cell}: left out: {cell.missing}", file=sys.stderr, flush=True)
                continue
            outcome = carry_out(bench, cell, cell.spec(steps))
            print(f"{cell}: {outcome.run['state']} {outcome.reasons}", file=sys.stderr, flush=True)
            yield outcome


def _heading(steps: int) -> str:
    cores = len(os.sched_getaffinity(0))
    return (
        f"{date.today().isoformat()}: hosts in network namespaces of one machine with {cores} cores, "
        f"one core a rank; ResNet-50 `tiny`, batch {BATCH} per device, {steps} steps at most, one run a cell. `~`: "
        "disturbed, for the reason in the last column."
    )


if __name__ == "__main__":
    sys.exit(main())
