"""A plain script in PyTorch under ``tbd exec`` / the same by itself, and / under TraceML, in fresh processes; what a
step costs under the hook / under TraceML, which has an environment of its own with the same PyTorch. ``measure_whole``:
the whole command / the script by itself, and GPT-2 in a plain loop under it / as a run of the suite."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import fmean, geometric_mean
from typing import Any

from bench import published
from bench.own_scripts import environment
from bench.ratio import Ratio, in_turn, ratio
from orchestrator.analysis.analyse import analyse
from orchestrator.services.facts.catalog import load_catalog
from tests.support.service import Service, running_service
from workers.node import interpreters
from workers.node.event_log import EventLog
from workers.node.one_host import carry_out
from workers.node.own import jobs
from workers.node.own.script import Command, OwnScript

# width of the network -> steps: some 2 ms and some 50 ms a step on one core of an AMD EPYC; judgements.
LENGTHS = {"2 ms": (256, 3000), "50 ms": (1700, 240)}
# The same networks, and one so small that a step is little but calls: its width, steps of a block, samples, blocks.
BLOCKS = {"2 ms": ("256", "50", "64", "100"), "50 ms": ("1700", "4", "64", "40")}
SMALL = ("8", "500", "4", "10")
WARM_UP = 20
# Some 30 s of steps of 50 ms.
WHOLE = ("train.py", "1700", "600")
LOOP_S = 20.0
GPT_2 = published.Network("gpt-2", {}, "transformers", "GPT2LMHeadModel", 1)

TRACEML = Path(__file__).with_name("traceml.txt")
# What the scripts begin with: ``step`` is around each step, ``watch`` ends and begins the watching.
ALONE = """
from contextlib import nullcontext as step
"""
WITH_HOOK = """
from contextlib import nullcontext as step
import tbd_hook
def watch(on):
    tbd_hook.METER.over = not on
"""
WITH_TRACEML = """
from contextlib import nullcontext
import traceml_ai
traceml_ai.init(mode="auto")
def traced():
    return traceml_ai.trace_step(model)
step = traced
def watch(on):
    global step
    step = traced if on else nullcontext
"""

# Prints what it knows itself: steps a second after a warm-up, and the real time at which its first step was over.
SCRIPT = """
import json, sys, time
import torch
from torch.utils.data import DataLoader, TensorDataset
width, steps = int(sys.argv[1]), int(sys.argv[2])
torch.manual_seed(1)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, width))
data = TensorDataset(torch.randn(640, width))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
done = 0
while done < steps:
    for (batch,) in DataLoader(data, batch_size=64, shuffle=True):
        with step():
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()
        done += 1
        if done == 1:
            first = time.time()
        if done == WARM_UP:
            begun = time.monotonic()
        if done == steps:
            break
print(json.dumps({"rate": (steps - WARM_UP) / (time.monotonic() - begun), "first": first}))
""".replace("WARM_UP", str(WARM_UP))

# Blocks of steps that are watched, and blocks that are not, in one process; seconds a step of each, by the clock and of
# the thread that trains: other work on the cores is no part of that.
IN_BLOCKS = """
import json, sys, time
import torch
from torch.utils.data import DataLoader, TensorDataset
width, steps, batches, blocks = map(int, sys.argv[1:])
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, width))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
data = TensorDataset(torch.randn(steps * batches, width))
def block():
    begun = time.monotonic(), time.thread_time()
    for (batch,) in DataLoader(data, batch_size=batches, shuffle=True):
        with step():
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()
    return [(now - then) / steps for now, then in zip((time.monotonic(), time.thread_time()), begun)]
block()
found = [[], []]
for number in range(blocks):
    for on in (False, True) if number % 2 else (True, False):
        watch(on)
        found[on].append(block())
watch(True)
print(json.dumps({"alone": found[False], "watched": found[True]}))
"""


@contextmanager
def rig() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tbd-bench-exec-") as folder:
        (Path(folder) / "train.py").write_text(ALONE + SCRIPT)
        (Path(folder) / "traced.py").write_text(WITH_TRACEML + SCRIPT)
        (Path(folder) / "blocks.py").write_text(WITH_HOOK + IN_BLOCKS)
        (Path(folder) / "traced_blocks.py").write_text(WITH_TRACEML + IN_BLOCKS)
        yield Path(folder)


def measure(folder: Path, pairs: int) -> list[Ratio]:
    """The ratios; what the hook and TraceML take of a step stands first."""

    def by_hook() -> float:
        return _taken(json.loads(_under_exec(folder, "blocks.py", *SMALL)[0]))

    def by_traceml() -> float:
        return _taken(_under_traceml(folder, "traced_blocks.py", *SMALL))

    found = [ratio("own time of a step, the hook / TraceML, auto", "<= 0.1", *in_turn(pairs, by_hook, by_traceml))]
    for name, (width, steps) in LENGTHS.items():
        sides = Sides(folder, (str(width), str(steps)))
        a, b = in_turn(pairs, sides.watched, sides.bare)
        printed, started = sides.printed[:pairs], sides.started[:pairs]
        least = "0.97" if name == "2 ms" else "0.99"
        found.append(ratio(f"rate of a script of {name} a step under exec / bare", f">= {least}", a, b))
        told = [json.loads(_under_exec(folder, "blocks.py", *BLOCKS[name])[0]) for _ in range(pairs)]
        parts = zip(*(_rates(one) for one in told), strict=True)
        found.append(ratio(f"the same, watched / not watched in one process, {name}", f">= {least}", *map(list, parts)))
        found.append(ratio(f"the same / under TraceML, {name}", ">= 1", *in_turn(pairs, sides.watched, sides.traced)))
        found.append(ratio(f"rate printed / by the script's own clock, {name}", "0.99 to 1.01", printed, a))
        found.append(ratio(f"start to first step, exec / bare, {name}", "+ 1 s", started, sides.started_bare))
    return found


def measure_whole(folder: Path, pairs: int) -> list[Ratio]:
    """``tbd exec --repeats 1`` of a script that takes some 30 s, with a data directory of its own each time / the
    script by itself, by the clock on the wall; and GPT-2 `small`: the suite's network in a loop of a few lines under
    ``tbd exec`` / as a run, on one core each."""

    def under_exec() -> float:
        with tempfile.TemporaryDirectory(dir=folder) as data:
            return _seconds(
                folder, [sys.executable, "-m", "orchestrator.cli.main", *ONE_RUN, "--", _python(), *WHOLE], data
            )

    name = "tbd exec --repeats 1 of a script of 30 s / the script"
    found = [ratio(name, "<= 1.3", *in_turn(pairs, under_exec, lambda: _seconds(folder, [_python(), *WHOLE])))]
    with running_service(Service, TBD_CPU_DEVICES="2") as service:
        taken = in_turn(pairs, lambda: _gpt_2_in_a_loop(folder), lambda: _gpt_2_of_the_suite(service))
    return [*found, ratio("GPT-2 in a plain loop under exec / as a run of the suite", "0.97 to 1.03", *taken)]


ONE_RUN = ("exec", "--repeats", "1", "--json")


def _seconds(folder: Path, command: list[str], data: str = "") -> float:
    """How long ``command`` takes, which has nobody's data but that in the folder ``data``."""
    around = {**os.environ, "PYTHONPATH": str(published.ROOT)}
    around = {name: value for name, value in around.items() if not name.startswith("TBD_")} | {"TBD_DATA_DIR": data}
    began = time.monotonic()
    subprocess.run(command, cwd=folder, env=around, capture_output=True, check=True)
    return time.monotonic() - began


def _gpt_2_in_a_loop(folder: Path) -> float:
    """Steps a second of the suite's network in ``bench.published_loop``, as ``tbd exec`` tells them."""
    path = folder / "gpt-2.json"
    job = published.job(folder, GPT_2, published.SIZE, min(os.sched_getaffinity(0)))
    # It is ended before it is through.
    path.write_text(json.dumps(job | {"plan": job["plan"] | {"steps": 10_000}}))
    words = ("-m", "bench.published_loop", "ours", GPT_2.kit, GPT_2.published, str(path))
    _, entries = _under_exec(folder, *words, seconds=LOOP_S, PYTHONPATH=str(published.ROOT), OMP_NUM_THREADS="1")
    return _throughput(entries)


def _gpt_2_of_the_suite(service: Service) -> float:
    """Steps a second, of one sample each: the suite counts their tokens."""
    batch = {"per_device_batch_size": GPT_2.batch, "size": published.SIZE, "repeats": 1, "max_repeats": 1}
    experiment = service.submit({"name": "bench-gpt-2", "model": GPT_2.model, "framework": "pytorch", **batch})
    service.wait(experiment, 600, 0.5)
    (row,) = service.call("GET", f"/api/v1/experiments/{experiment}/results")["items"]
    tokens = load_catalog().models[GPT_2.model].sizes[published.SIZE]["tokens"]
    return float(row["throughput"]["value"]) / float(tokens)


class Sides:
    """The two sides of a ratio: a script of so many steps, watched or by itself; and what else they tell."""

    def __init__(self, folder: Path, words: tuple[str, ...]) -> None:
        self._folder = folder
        self._more = words
        self._words = ("train.py", *words)
        self.printed: list[float] = []
        self.started: list[float] = []
        self.started_bare: list[float] = []

    def watched(self) -> float:
        """Steps a second by the script's own clock."""
        began = time.time()
        text, entries = _under_exec(self._folder, *self._words)
        told = json.loads(text)
        self.printed.append(_throughput(entries) / 64)
        self.started.append(told["first"] - began)
        return float(told["rate"])

    def bare(self) -> float:
        """The same without ``tbd exec``."""
        began = time.time()
        done = subprocess.run([_python(), *self._words], cwd=self._folder, capture_output=True, text=True, check=True)
        told = json.loads(done.stdout)
        self.started_bare.append(told["first"] - began)
        return float(told["rate"])

    def traced(self) -> float:
        """The same under TraceML, begun as its users begin it."""
        return float(_under_traceml(self._folder, "traced.py", *self._more)["rate"])


def _throughput(entries: list[dict[str, Any]]) -> float:
    rate = analyse({"here": entries}).measurement("throughput")
    assert rate is not None, entries[-1]
    assert rate.value is not None
    return rate.value


def _taken(blocks: dict[str, list[list[float]]]) -> float:
    """Seconds of the thread that a step takes more where it is watched."""
    watched, alone = (fmean(thread for _, thread in blocks[kind]) for kind in ("watched", "alone"))
    return watched - alone


def _rates(blocks: dict[str, list[list[float]]]) -> tuple[float, float]:
    """Steps a second by the clock, watched and not watched."""
    watched, alone = (geometric_mean([1.0 / clock for clock, _ in blocks[kind]]) for kind in ("watched", "alone"))
    return watched, alone


def _under_traceml(folder: Path, script: str, *words: str) -> dict[str, Any]:
    """What the script printed last; what TraceML prints of it stands in lines of its own."""
    programs = environment(TRACEML)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        command = [programs / "traceml", "run", "--mode", "summary", "--logs-dir", place, script, "--args", *words]
        around = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
        done = subprocess.run(command, cwd=folder, env=around, capture_output=True, text=True, check=True)
    told: dict[str, Any] = json.loads([line for line in done.stdout.splitlines() if line.startswith('{"')][-1])
    return told


def _python() -> str:
    found = interpreters.resolve("pytorch").python
    assert found, "PyTorch's environment is not there: tbd frameworks install pytorch"
    return found


def _under_exec(folder: Path, *words: str, seconds: float = 600.0, **more: str) -> tuple[str, list[dict[str, Any]]]:
    """What the script printed, and its log; it has so many timed ``seconds`` at most. ``more``: of its environment."""
    python = _python()
    asked = jobs.Asked(seconds, None, None, None, 3600.0)
    job = jobs.job_of(asked, {"script": words[0]}, 1, python, {"words": list(words)}, "here")
    with tempfile.TemporaryDirectory(dir=folder) as place:
        log = EventLog(Path(place) / "log.jsonl")
        failure = carry_out(job, log, partial(OwnScript, Command([python, *words], folder, {**os.environ, **more})))
        assert failure is None, failure
        entries = log.slice(0, log.last_seq)
    text = "".join(
        one["data"]["text"] for one in entries if one["kind"] == "output" and one["data"]["stream"] == "stdout"
    )
    return text, entries
