"""suites/scaling.yaml on the hosts of the bench: weak and strong scaling, with tables and figures.

    python -m tests.cluster.scaling [--out docs/read_results/scaling.md] [--repeats 3] [--only pytorch]

ResNet-50 in its smallest size, as the hosts are process trees on the cores of one machine. With --out what stands
between the page's two marks is replaced, and the figures are written beside it.
"""

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from orchestrator.cli.spec.spec_file import SpecFile
from orchestrator.reports.drawing.table import markdown
from orchestrator.reports.tables.scaling import scaling_table
from orchestrator.services.facts.catalog import load_catalog
from tests.cluster import hosts
from tests.cluster.bench import HEAD, Bench, Layout, running
from tests.cluster.matrix import put_into
from tests.support.service import TERMINAL, until
from workers.node import interpreters

SUITE = "suites/scaling.yaml"
MARKS = ("<!-- scaling: made by python -m tests.cluster.scaling -->", "<!-- end of scaling -->")
# Topology -> the hosts of its runs, those of one repetition after those of another. 4x1 has two ranks on each core.
PLACES = {
    "1x1": (("one",), ("two",)),
    "1x2": (("three",),),
    "2x1": (("one", "two"),),
    "4x1": (("one", "two", "three", "four"),),
}
ETHERNET_BITS_PER_S = 1e9
# What the spec is made smaller by, and why the page says so. A run has 4 s of timed steps at most.
SMALLER = {"model": "resnet-50", "size": "tiny", "max_measure_s": 4.0}
WEAK = {
    "name": "scaling-weak",
    "topology": list(PLACES),
    "fabric": ["ethernet", "infiniband"],
    "per_device_batch_size": 8,
    "exclude": [{"topology": "4x1", "fabric": "infiniband"}],
}
STRONG = {
    "name": "scaling-strong",
    "topology": ["1x1", "2x1", "4x1"],
    "per_device_batch_size": None,
    "global_batch_size": 32,
}
# Judgement: a framework's import on a busy core takes most of it.
RUN_S = 600.0
BEGINS_S = 60.0


@dataclass
class Course:
    """How a sweep went: its id, its runs, and the machine's load (processes that ran or wanted to, over a minute) as
    each of them ended."""

    experiment: str
    runs: list[dict[str, Any]]
    loads: list[float] = field(default_factory=list)
    took_s: float = 0.0

    @property
    def reasons(self) -> Counter[str]:
        """Finding -> how many runs have it: failures, and what disturbed."""
        found: Counter[str] = Counter()
        for run in self.runs:
            if run["failure"]:
                found[run["failure"]["kind"]] += 1
            found.update(reason["code"] for reason in (run["validity"] or {}).get("reasons", ()))
        return found


def spec_of(changes: Mapping[str, Any], repeats: int, **more: Any) -> dict[str, Any]:
    """The ready spec with ``changes``."""
    fields = SpecFile(SUITE).spec | SMALLER | changes | more | {"repeats": repeats, "max_repeats": repeats}
    return {name: value for name, value in fields.items() if value is not None}


def carry_out(bench: Bench, spec: Mapping[str, Any]) -> Course:
    """Run the experiment to its end, one run at a time.

    The hosts share the machine's cores, so that two runs at once would slow each other. Therefore all nodes are drained
    and the experiment is paused. When its next run is to begin, the nodes that it is to have are resumed, then the
    experiment, and as soon as it has begun all is halted again.

    Raises:
        RuntimeError: another run has begun.
    """
    began = time.monotonic()
    with _awake(bench, ()):
        course = Course(bench.service.submit(spec), [])
        _order(bench, course, "pause")
        while bench.service.call("GET", f"/api/v1/experiments/{course.experiment}")["state"] not in TERMINAL:
            _next_run(bench, course)
    course.runs = bench.service.runs(course.experiment)
    course.took_s = time.monotonic() - began
    return course


def _next_run(bench: Bench, course: Course) -> None:
    """Begin the first run of the queue, and wait for its end."""
    queued = [run for run in bench.service.runs(course.experiment) if run["state"] == "queued"]
    if queued:
        topology, repetition = queued[0]["plan"]["topology"], queued[0]["plan"]["repetition"]
        with _awake(bench, PLACES[topology][repetition % len(PLACES[topology])]):
            _order(bench, course, "resume")
            begun = until(lambda: _begun(bench, course, queued), BEGINS_S, 0.2)
            _order(bench, course, "pause")
        if queued[0]["id"] not in begun:
            raise RuntimeError(f"{begun} have begun, where {queued[0]['id']} was to")
    # Polls seldom: the service must not be kept busy while it measures.
    until(lambda: not _under_way(bench, course), RUN_S, 1.0)
    course.loads.append(os.getloadavg()[0])


def _order(bench: Bench, course: Course, deed: str) -> None:
    bench.service.call("POST", f"/api/v1/experiments/{course.experiment}/{deed}", {})


def _begun(bench: Bench, course: Course, queued: Sequence[Mapping[str, Any]]) -> list[str]:
    """Those of ``queued`` that are so no longer: beside other work one may be over before it is looked for."""
    left = {run["id"] for run in bench.service.runs(course.experiment) if run["state"] == "queued"}
    return [run["id"] for run in queued if run["id"] not in left]


def _under_way(bench: Bench, course: Course) -> list[str]:
    runs = bench.service.runs(course.experiment)
    return [run["id"] for run in runs if run["state"] not in ("queued", *TERMINAL)]


@contextmanager
def _awake(bench: Bench, names: Sequence[str]) -> Iterator[None]:
    """Let only these nodes take runs. The outermost block ends with all of them as they were; an inner one, drained."""
    before = bench.available()
    for name in bench.hosts:
        if (name in names) is not (name in before):
            _set(bench, name, "resume" if name in names else "drain")
    try:
        yield
    finally:
        now = bench.available()
        for name in bench.hosts:
            if (name in before) is not (name in now):
                _set(bench, name, "resume" if name in before else "drain")


def _set(bench: Bench, name: str, deed: str) -> None:
    bench.service.call("POST", f"/api/v1/nodes/{name}/{deed}", {})


def told(bench: Bench, experiment: str) -> tuple[dict[str, Any], str]:
    """(what ``tbd scaling EXPERIMENT --json`` answers on the head, the figure that it draws)."""
    head = bench.hosts[HEAD]
    words = ["-m", "orchestrator.cli.main", "scaling", experiment, "--json", "--figure", str(head.here / "scaling.svg")]
    environment = bench.environment(HEAD) | {"TBD_SERVER": bench.service.url}
    command = head.start(sys.executable, *words, environment=environment)
    answer, _ = command.communicate(timeout=120)
    if command.returncode:
        raise RuntimeError(f"tbd scaling: exit status {command.returncode}")
    return json.loads(answer), (head.outside / "scaling.svg").read_text(encoding="utf-8")


def frameworks(only: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """(the frameworks of the spec that can run here, why each other one cannot)."""
    ready, reasons = [], []
    for name in SpecFile(SUITE).spec["framework"]:
        strategies = load_catalog().frameworks[name].strategies.values()
        first = {next(one.interpreter for one in strategies if one.max_nodes >= nodes) for nodes in (1, 2)}
        missing = [found.reason for found in map(interpreters.resolve, sorted(first)) if not found.ready]
        if missing:
            reasons.append(f"{name}: {'; '.join(map(str, missing))}")
        elif not only or name in only:
            ready.append(name)
    return ready, reasons


def page_of(found: Mapping[str, Any], course: Course, figure: str, repeats: int) -> str:
    """One sweep in Markdown."""
    table = scaling_table(found)
    findings = ", ".join(f"{code} ({count})" for code, count in course.reasons.most_common()) or "none"
    lines = [
        f"### {table.common.capitalize()}",
        "",
        markdown(table.headers, table.rows),
        "",
        f"![speed-up over devices]({figure})",
        "",
        f"* {len(course.runs)} runs in {repeats} blocks, {course.took_s / 60:.0f} minutes. Load of the machine as the "
        f"runs ended: {min(course.loads):.1f} to {max(course.loads):.1f}. Findings of the runs: {findings}.",
        *(f"* {note}" for note in table.notes),
    ]
    if not found["missing"]:
        lines.append("* Missing: none.")
    return "\n".join(lines)


def heading(left_out: Sequence[str], what: str) -> str:
    """When, where and of ``what``."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "processor unknown"
    )
    told = [
        f"{date.today().isoformat()}: {len(os.sched_getaffinity(0))} cores of a virtual machine ({model})",
        what,
        *(f"left out, {reason}" for reason in left_out),
    ]
    return "; ".join(told) + "."


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="the page whose part between the marks is replaced")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", action="append", help="a framework; may be given several times")
    options = parser.parse_args()
    if hosts.refusal():
        print(hosts.refusal(), file=sys.stderr)
        return 2
    ready, left_out = frameworks(options.only)
    layout = Layout.of_this_machine()
    what = f"ethernet held to {ETHERNET_BITS_PER_S / 1e9:g} Gbit/s, infiniband (IP without RDMA, MTU 65520) not held"
    parts, failed = [heading(left_out, f"{what}; ResNet-50 `tiny`")], 0
    with running(layout | {"four": Layout(layout["two"].cores, 7000, 1)}) as bench:
        for changes in (WEAK, STRONG):
            with bench.network.shaped(ETHERNET_BITS_PER_S):
                course = carry_out(bench, spec_of(changes, options.repeats, framework=ready))
            found, figure = told(bench, course.experiment)
            name = f"{changes['name']}.svg"
            parts.append(page_of(found, course, name, options.repeats))
            failed += sum(1 for run in course.runs if run["state"] != "completed")
            print(parts[-1], flush=True)
            if options.out:
                options.out.with_name(name).write_text(figure, encoding="utf-8")
    if options.out:
        put_into(options.out, "\n\n".join(parts), MARKS)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
