"""Predictions of the S-SGD model held against what hosts of the bench then measure: the figures of its page.

    python -m tests.cluster.s_sgd [--out docs/read_results/s-sgd-model.md] [--repeats 4] [--only pytorch] [--keep FILE]

Of each network in each framework one device is profiled, of each link the libraries are timed, and the cells of two
hosts are predicted before they run. With --out what stands between the page's two marks is replaced. Networks are in
their smallest size, as the hosts are process trees on the cores of one machine, a core a rank.
"""

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from orchestrator.analysis.s_sgd.buckets import MIB
from orchestrator.analysis.s_sgd.forecast import FEWEST_JUDGED
from orchestrator.reports.drawing.table import markdown
from orchestrator.services.facts.catalog import load_catalog
from tests.cluster import hosts
from tests.cluster.bench import HEAD, Bench, Layout, running
from tests.cluster.matrix import put_into
from tests.cluster.scaling import heading
from workers.node import interpreters

MARKS = ("<!-- figures: made by python -m tests.cluster.s_sgd -->", "<!-- end of figures -->")
ONE, TWO = ("one",), ("one", "two")
MANY = ("one", "two", "four", "five", "six", "seven", "eight", "nine")
REPLAYED = (4, 8)  # hosts
LINKS = (100e6, 1e9)
UNSHAPED = math.inf  # as fast as the cores send
FAST_LINKS = (4e9, UNSHAPED)
# Network -> batch of a device: a step takes some 20 to 100 ms on a core.
MODELS = {"resnet-50": 16, "googlenet": 4, "alexnet": 32}
GROWN = (2, 4)  # times the profiled batch
# So many bytes of gradients that buckets matter: 41 MB.
MERGED_MODEL = {"model": "googlenet", "size": "small", "per_device_batch_size": 1}
BUCKETS_MIB = (1, 4, 25)
# As many runs as the test of a straggler needs (docs/read_results/s-sgd-model.md).
GANGS, RUNS_OF_A_GANG, SLOWED = 3, 6, 0.95
# The first budget is enough where nothing else runs; a busy machine leaves the largest messages out to keep within it.
MAX_BYTES, LEAST_BYTES, BUDGETS_S = 2**22, 2**18, (40.0, 160.0)
# Judgements: a cell whose 95 % interval is wider tells nothing of a model's error; a framework's import on a busy core.
MOST_HALF_WIDTH = 0.05
RUN_S = 900.0


@dataclass(frozen=True)
class Way:
    """How a framework trains over two hosts, and the library whose netbench tells how long its exchanges take."""

    framework: str
    strategy: str
    library: str


WAYS = (
    Way("pytorch", "ddp", "gloo"),
    Way("tensorflow", "multi-worker-mirrored", "grpc"),
    Way("tensorflow", "horovod", "horovod-tensorflow"),
    Way("mxnet", "kvstore-dist-sync", "kvstore-dist-sync"),
)


@dataclass(frozen=True)
class Judged:
    """One cell. Iterations in seconds: ``measured``, with half of its 95 % interval as a ratio, and by ``models``, of
    which the first is ours. ``residual``: of the waterfall of what was measured, over the iteration."""

    way: Way
    model: str
    link: float
    measured_s: float
    half_width: float
    models: Mapping[str, float]
    residual: float | None = None

    def error(self, model: str) -> float:
        """Of the iteration, signed."""
        return self.models[model] / self.measured_s - 1


MODELLED = ("S-SGD", "idle netbench", "linear scaling", "no overlap, nominal bandwidth")
OURS, IDLE, LINEAR, NOMINAL = MODELLED


class Trial:
    """What is asked of the service of a bench, one experiment at a time."""

    def __init__(self, bench: Bench, repeats: int) -> None:
        self._bench, self._call, self._repeats = bench, bench.service.call, repeats

    def spec(self, way: Way, model: str, nodes: Sequence[str], **more: Any) -> dict[str, Any]:
        return {
            "name": f"s-sgd-{model}",
            "model": model,
            "size": "tiny",
            "framework": way.framework,
            "strategy": way.strategy,
            "topology": f"{len(nodes)}x1",
            "fabric": "ethernet" if len(nodes) > 1 else None,
            "per_device_batch_size": MODELS[model],
            "nodes": {"names": list(nodes)},
            "repeats": self._repeats,
            "max_repeats": self._repeats,
            "profile": ["layers"],
            "timeout_s": RUN_S,
        } | more  # fmt: skip

    def measured(self, spec: Mapping[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Run it: (its rows of results, its runs)."""
        experiment = self._bench.service.submit(spec)
        runs = self._bench.service.wait(experiment, RUN_S * self._repeats, 1.0)
        return self._bench.service.all(f"/api/v1/experiments/{experiment}/results"), runs

    @contextmanager
    def link(self, link: float, libraries: Iterable[str], max_bytes: int = MAX_BYTES) -> Iterator[None]:
        """Shape the link between the two hosts, and time libraries over it, up to messages of a training's size, also
        beside busy cores. What they told goes with the link: an undisturbed one of another link would be preferred."""
        with ExitStack() as stack:
            if link != UNSHAPED:
                stack.enter_context(self._bench.network.shaped(link))
            for library in dict.fromkeys(libraries):
                for budget_s in BUDGETS_S:
                    run = self._bench.netbench(TWO, library, "ethernet", max_bytes=max_bytes, budget_s=budget_s)
                    stack.callback(self._call, "DELETE", f"/api/v1/experiments/{run['experiment_id']}")
                    asked = f"run={run['id']}&operation=all_reduce&busy_cores=true&limit=500"
                    rows = self._call("GET", f"/api/v1/netbench?{asked}")["items"]
                    if max((row["bytes"] for row in rows), default=0) >= LEAST_BYTES:
                        break
            yield

    def predicted(self, spec: Mapping[str, Any], beside: str | None = None) -> list[dict[str, Any]]:
        """Raises RuntimeError: something lacks."""
        found = self._call("POST", "/api/v1/predictions" + (f"?beside={beside}" if beside else ""), spec)
        if found["missing"]:
            raise RuntimeError(f"{spec['model']} of {spec['framework']} cannot be predicted: {found['missing']}")
        return list(found["items"])

    def judge(self, way: Way, model: str, link: float) -> Judged:
        """Predict a cell of two hosts in each way, run it, and compare."""
        spec = self.spec(way, model, TWO)
        (idle,), (ours,) = self.predicted(spec, "idle"), self.predicted(spec)
        (row,), runs = self.measured(spec)
        measured_s, half_width = _iteration(row, len(TWO) * MODELS[model])
        done = next(run["id"] for run in runs if run["state"] == "completed")
        waterfall = self._call("GET", f"/api/v1/runs/{done}/waterfall")
        parts = {part["name"]: part["seconds"] for part in waterfall["parts"]}
        alone_s = ours["parts"][0]["seconds"]
        sent = 4 * load_catalog().models[model].sizes["tiny"]["trainable_parameters"]
        models = {
            OURS: ours["iteration_s"],
            IDLE: idle["iteration_s"],
            LINEAR: alone_s,
            NOMINAL: alone_s + 8 * sent / link,  # a ring of two sends each byte once
        }
        residual = parts["residual"] / waterfall["iteration_s"] if "residual" in parts else None
        return Judged(way, model, link, measured_s, half_width, models, residual)

    def grown(self, way: Way, model: str) -> list[tuple[int, float]]:
        """(how many times the profiled batch, error of the predicted rate), on one device."""
        batches = [MODELS[model] * times for times in GROWN]
        spec = self.spec(way, model, ONE, per_device_batch_size=batches, profile=[])
        predicted = {one["cell_key"]: one["throughput"]["value"] for one in self.predicted(spec)}
        rows, _ = self.measured(spec)
        return [
            (
                row["axes"]["per_device_batch_size"] // MODELS[model],
                predicted[row["cell_key"]] / row["throughput"]["value"] - 1,
            )
            for row in rows
            if row["throughput"]["value"]
        ]

    def replayed(self, link: float) -> Iterator[Judged]:
        """Replays on more hosts than cores, predicted from ones of one device and a netbench of two hosts."""
        way = WAYS[0]
        asked = []
        for model in MODELS:
            _, (run, *_) = self.measured(self.spec(way, model, ONE) | {"repeats": 1, "max_repeats": 1})
            options = {"run": run["id"]}
            asked.append({"model": "replay", "size": "full", "options": options, "per_device_batch_size": 1})
            self.measured(self.spec(way, model, ONE) | asked[-1])
        with self.link(link, [way.library]):
            for model, count in product(MODELS, REPLAYED):
                spec = self.spec(way, model, MANY[:count]) | asked[list(MODELS).index(model)]
                (ours,) = self.predicted(spec)
                (row,), _ = self.measured(spec)
                measured_s, half_width = _iteration(row, count)
                models = {OURS: ours["iteration_s"], LINEAR: ours["parts"][0]["seconds"]}
                yield Judged(way, f"replay of {model}, {count}x1", link, measured_s, half_width, models)

    def merged(self, link: float) -> Iterator[Judged]:
        """One network in several sizes of buckets: which is best is what is asked."""
        way = WAYS[0]
        self.measured(self.spec(way, "googlenet", ONE) | MERGED_MODEL)
        with self.link(link, [way.library], 32 * MIB):
            for mib in BUCKETS_MIB:
                spec = self.spec(way, "googlenet", TWO) | MERGED_MODEL | {"options": {"bucket_mib": mib}}
                (ours,) = self.predicted(spec)
                (row,), _ = self.measured(spec)
                measured_s, half_width = _iteration(row, len(TWO))
                models = {OURS: ours["iteration_s"]}
                yield Judged(way, f"googlenet small, {mib} MiB", link, measured_s, half_width, models)

    def straggler(self, share: float) -> str | None:
        """The node of the rank that is named in a gang of which the second rank has that share of its core."""
        with ExitStack() as stack:
            if share < 1:
                stack.enter_context(self._bench.hosts[TWO[1]].slowed(share))
            spec = self.spec(WAYS[0], "resnet-50", TWO)
            _, runs = self.measured(spec | {"repeats": RUNS_OF_A_GANG, "max_repeats": RUNS_OF_A_GANG})
        found = self._call("GET", f"/api/v1/runs/{runs[0]['id']}/waterfall")["straggler"]
        return str(found["node"]) if found and found["named"] else None


def _iteration(row: Mapping[str, Any], work: int) -> tuple[float, float]:
    """(Seconds of an iteration that does so much work, half of its 95 % interval as a ratio)."""
    rate = row["throughput"]
    return work / rate["value"], (rate["ci_high"] - rate["ci_low"]) / 2 / rate["value"]


def carry_out(
    bench: Bench, ways: Sequence[Way], models: Sequence[str], links: Sequence[float], repeats: int
) -> Iterator[Judged]:
    """Profile one device of each, then judge all on each link."""
    trial = Trial(bench, repeats)
    for way in ways:
        for model in models:
            trial.measured(trial.spec(way, model, ONE))
    yield from over_links(trial, ways, models, links)


def over_links(trial: Trial, ways: Sequence[Way], models: Sequence[str], links: Sequence[float]) -> Iterator[Judged]:
    for link in links:
        with trial.link(link, [way.library for way in ways]):
            for way, model in product(ways, models):
                yield trial.judge(way, model, link)


def summary(cells: Sequence[Judged]) -> list[tuple[str, str]]:
    """(What, its figure) over cells whose measurement is precise enough."""
    if not cells:
        return []
    errors = {name: [abs(one.error(name)) for one in cells] for name in MODELLED}
    ours = errors[OURS]
    told = [
        ("cells", str(len(cells))),
        ("absolute error: median, 90th percentile", f"{median(ours):.1%}, {quantile(ours, 0.9):.1%}"),
        ("half-width of what was measured (95 %), median", f"{median(one.half_width for one in cells):.1%}"),
    ]
    told += [
        (f"median error over that of: {name}", f"{median(ours) / median(errors[name]):.2f}")
        for name in (LINEAR, NOMINAL, IDLE)
    ]
    held = [hold for hold in map(_holds, cells, [cells] * len(cells)) if hold is not None]
    if held:
        told.append(
            (
                "90 % intervals from the others' errors: hold, half-width (median)",
                f"{sum(hold for hold, _ in held)} of {len(held)}, {median(width for _, width in held):.1%}",
            )
        )
    residuals = [abs(one.residual) for one in cells if one.residual is not None]
    if residuals:
        told.append(
            ("waterfall's residual of 5 % or less", f"{sum(one <= 0.05 for one in residuals)} of {len(residuals)}")
        )
    return told


def _holds(one: Judged, cells: Sequence[Judged]) -> tuple[bool, float] | None:
    """(Whether its interval by the errors of the other cells holds it, half its width as a ratio); None with too few of
    them. tbd takes those of the same strategy; a trial has six of each, and so all are taken."""
    others = sorted(abs(math.log1p(other.error(OURS))) for other in cells if other is not one)
    if len(others) < FEWEST_JUDGED:
        return None
    bound = others[math.ceil(0.9 * (len(others) + 1)) - 1]
    return abs(math.log1p(one.error(OURS))) <= bound, math.expm1(bound)


def quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, math.floor(share * len(values)))]


HEADS = ("network", "strategy", "link", "measured", "half-width", *(f"error: {name}" for name in MODELLED), "residual")


JUDGED = ("judged", "fast", "merged", "replays")


@dataclass
class Found:
    """What the trials told. ``grown``: (times the profiled batch, error of the rate); ``accused``: (share of a core
    that the second rank had, the node whose rank was named)."""

    judged: list[Judged] = field(default_factory=list)
    fast: list[Judged] = field(default_factory=list)
    merged: list[Judged] = field(default_factory=list)
    replays: list[Judged] = field(default_factory=list)
    grown: list[tuple[int, float]] = field(default_factory=list)
    accused: list[tuple[float, str | None]] = field(default_factory=list)


def page_of(found: Found, left_out: Sequence[str]) -> str:
    """All of it in Markdown."""
    cells = [*found.judged, *found.fast, *found.merged, *found.replays]
    told = [(f"left out, half-width above {MOST_HALF_WIDTH:.0%}", str(len(cells) - len(_precise(cells))))]
    told += summary(_precise(found.judged))
    for what, some in (("4 Gbit/s and unshaped links", found.fast), ("replays", found.replays)):
        if errors := [abs(one.error(OURS)) for one in _precise(some)]:
            figures = f"{median(errors):.1%}, {max(errors):.1%} ({len(errors)} cells)"
            told.append((f"{what}: absolute error, median, largest", figures))
    for times in GROWN:
        if errors := [abs(error) for grown_by, error in found.grown if grown_by == times]:
            what = f"{times} times the profiled batch, one device: absolute error, median, largest"
            told.append((what, f"{median(errors):.1%}, {max(errors):.1%} ({len(errors)} networks)"))
    if found.merged:
        best = [min(found.merged, key=by).model for by in (lambda one: one.models[OURS], lambda one: one.measured_s)]
        told.append(("best size of buckets: predicted; measured", "; ".join(best)))
    for share in (1.0, SLOWED):
        if named := [node for of, node in found.accused if of == share]:
            what = f"gangs of {RUNS_OF_A_GANG} runs whose second rank has {share:.0%} of its core: it is named; another"
            wrong = [node for node in named if node not in (None, TWO[1])]
            told.append((what, f"{named.count(TWO[1])} of {len(named)}; {len(wrong)}"))
    parts = [
        heading(left_out, "networks `tiny` where no other size is named"),
        markdown(HEADS, [_row(one) for one in cells]),
        markdown(["what", "figure"], [list(one) for one in told]),
    ]
    return "\n\n".join(parts)


def _precise(cells: Sequence[Judged]) -> list[Judged]:
    return [one for one in cells if one.half_width <= MOST_HALF_WIDTH]


def _row(one: Judged) -> list[str]:
    return [
        one.model,
        f"{one.way.framework} {one.way.strategy}",
        "unshaped" if one.link == UNSHAPED else f"{one.link / 1e6:g} Mbit/s",
        f"{one.measured_s * 1e3:.1f} ms",
        f"{one.half_width:.1%}",
        *(f"{one.error(name):+.1%}" if name in one.models else "" for name in MODELLED),
        "" if one.residual is None else f"{one.residual:+.1%}",
    ]


def ready(only: Sequence[str] | None) -> tuple[list[Way], list[str]]:
    """(the ways that can be gone here, why each other one cannot)."""
    found, reasons = [], []
    for way in WAYS:
        interpreter = interpreters.resolve(
            load_catalog().frameworks[way.framework].strategies[way.strategy].interpreter
        )
        if not interpreter.ready:
            reasons.append(f"{way.framework} {way.strategy}: {interpreter.reason}")
        elif not only or way.framework in only:
            found.append(way)
    return found, reasons


def _collect(cells: Iterable[Judged], into: list[Judged]) -> None:
    """What was found before the program is ended is printed."""
    for one in cells:
        into.append(one)
        print("|", " | ".join(_row(one)), flush=True)


def _grown(found: Found, bench: Bench, ways: Sequence[Way], repeats: int) -> None:
    trial = Trial(bench, repeats)
    for model in MODELS:
        trial.measured(trial.spec(WAYS[0], model, ONE))
        found.grown += trial.grown(WAYS[0], model)


def _accused(found: Found, bench: Bench, ways: Sequence[Way], repeats: int) -> None:
    trial = Trial(bench, repeats)
    trial.measured(trial.spec(WAYS[0], "resnet-50", ONE))
    with bench.network.shaped(LINKS[-1]):
        for _ in range(GANGS):
            found.accused += [(share, trial.straggler(share)) for share in (SLOWED, 1.0)]


def _over(link: float) -> "Part":
    return lambda found, bench, ways, repeats: _collect(
        carry_out(bench, ways, list(MODELS), [link], repeats), found.judged
    )


Part = Callable[[Found, Bench, Sequence[Way], int], None]
PARTS: dict[str, Part] = {
    **{f"{link / 1e6:g}": _over(link) for link in LINKS},  # Mbit/s
    "fast": lambda found, bench, ways, repeats: _collect(
        carry_out(bench, WAYS[:1], list(MODELS), FAST_LINKS, repeats), found.fast
    ),
    "grown": _grown,
    "buckets": lambda found, bench, ways, repeats: _collect(Trial(bench, repeats).merged(LINKS[-1]), found.merged),
    "stragglers": _accused,
    "replays": lambda found, bench, ways, repeats: _collect(Trial(bench, repeats).replayed(LINKS[-1]), found.replays),
}


def read_found(path: Path | None) -> tuple[Found, list[str]]:
    """(What earlier parts found, their names), as ``keep`` left it."""
    if path is None or not path.exists():
        return Found(), []
    told = json.loads(path.read_text(encoding="utf-8"))
    found = {
        name: [Judged(**one | {"way": Way(**one["way"])}) for one in rows] if name in JUDGED else list(map(tuple, rows))
        for name, rows in told["found"].items()
    }
    return Found(**found), told["parts"]


def keep(path: Path | None, found: Found, parts: Sequence[str]) -> None:
    if path is not None:
        path.write_text(json.dumps({"parts": parts, "found": asdict(found)}, indent=1), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="the page whose part between the marks is replaced")
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--only", action="append", help="a framework; may be given several times")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this; may be given several times")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="what was found; a part that is there is passed over")
    options = parser.parse_args()
    if hosts.refusal():
        print(hosts.refusal(), file=sys.stderr)
        return 2
    ways, left_out = ready(options.only)
    layout = Layout.of_this_machine()
    many = {name: replace(layout[TWO[place % 2]], clock_offset_s=0) for place, name in enumerate(MANY)}
    found, done = read_found(options.keep)
    try:
        for part in (name for name in options.part or PARTS if name not in done):
            with running({HEAD: layout[HEAD]} | many if part == "replays" else layout) as bench:
                PARTS[part](found, bench, ways, options.repeats)
            done.append(part)
            keep(options.keep, found, done)
    finally:
        print(text := page_of(found, [*left_out, *(f"part {name}: not run" for name in PARTS if name not in done)]))
    if options.out:
        put_into(options.out, text, MARKS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
