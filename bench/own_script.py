"""A plain script in PyTorch under ``tbd exec`` / the same by itself, in fresh processes; what the hook takes a step."""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from bench.ratio import Ratio, in_turn, ratio
from orchestrator.analysis.analyse import analyse
from workers.node import interpreters
from workers.node.event_log import EventLog
from workers.node.one_host import carry_out
from workers.node.own import jobs
from workers.node.own.script import Command, OwnScript

# width of the network -> steps: some 2 ms and some 50 ms a step on one core of an AMD EPYC; judgements.
LENGTHS = {"2 ms": (256, 3000), "50 ms": (1700, 240)}
WARM_UP = 20

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

# Blocks of steps in which the hook watches, and blocks in which it does not, in one process; seconds a step of each, of
# the thread that trains: other work on the cores is no part of it.
IN_BLOCKS = """
import json, time
import tbd_hook, torch
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
data = TensorDataset(torch.randn(2000, 8))
def block():
    begun = time.thread_time()
    for (batch,) in DataLoader(data, batch_size=4):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
    return (time.thread_time() - begun) / 500
block()
found = [[], []]
for number in range(20):
    for over in (False, True) if number % 2 else (True, False):
        tbd_hook.METER.over = over
        found[over].append(block())
tbd_hook.METER.over = False
print(json.dumps(found))
"""


@contextmanager
def rig() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tbd-bench-exec-") as folder:
        (Path(folder) / "train.py").write_text(SCRIPT)
        (Path(folder) / "blocks.py").write_text(IN_BLOCKS)
        yield Path(folder)


def measure(folder: Path, pairs: int) -> list[Ratio]:
    """The ratios; what the hook takes a step stands first, against 17 us: a tenth of the least that TraceML takes by
    its own account (0.17 to 0.58 ms)."""
    blocks = [json.loads(_under_exec(folder, "blocks.py")[0]) for _ in range(pairs)]
    taken = [fmean(watched) - fmean(alone) for watched, alone in blocks]
    found = [ratio("the hook's own time of a step / 17 us", "<= 1", taken, [17e-6] * len(taken))]
    for name, (width, steps) in LENGTHS.items():
        sides = Sides(folder, (str(width), str(steps)))
        a, b = in_turn(pairs, sides.watched, sides.bare)
        least = "0.97" if name == "2 ms" else "0.99"
        found.append(ratio(f"rate of a script of {name} a step under exec / bare", f">= {least}", a, b))
        found.append(ratio(f"rate printed / by the script's own clock, {name}", "0.99 to 1.01", sides.printed, a))
        found.append(ratio(f"start to first step, exec / bare, {name}", "+ 1 s", sides.started, sides.started_bare))
    return found


class Sides:
    """The two sides of a ratio: a script of so many steps, watched or by itself; and what else they tell."""

    def __init__(self, folder: Path, words: tuple[str, ...]) -> None:
        self._folder = folder
        self._words = ("train.py", *words)
        self.printed: list[float] = []
        self.started: list[float] = []
        self.started_bare: list[float] = []

    def watched(self) -> float:
        """Steps a second by the script's own clock."""
        began = time.time()
        text, entries = _under_exec(self._folder, *self._words)
        told = json.loads(text)
        rate = analyse({"here": entries}).measurement("throughput")
        assert rate is not None, entries[-1]
        assert rate.value is not None
        self.printed.append(rate.value / 64)
        self.started.append(told["first"] - began)
        return float(told["rate"])

    def bare(self) -> float:
        """The same without ``tbd exec``."""
        began = time.time()
        done = subprocess.run([_python(), *self._words], cwd=self._folder, capture_output=True, text=True, check=True)
        told = json.loads(done.stdout)
        self.started_bare.append(told["first"] - began)
        return float(told["rate"])


def _python() -> str:
    found = interpreters.resolve("pytorch").python
    assert found, "PyTorch's environment is not there: tbd frameworks install pytorch"
    return found


def _under_exec(folder: Path, *words: str) -> tuple[str, list[dict[str, Any]]]:
    """What the script printed, and its log."""
    python = _python()
    asked = jobs.Asked(600.0, None, None, None, 3600.0)
    job = jobs.job_of(asked, {"script": words[0]}, 1, python, {"words": list(words)}, "here")
    with tempfile.TemporaryDirectory(dir=folder) as place:
        log = EventLog(Path(place) / "log.jsonl")
        failure = carry_out(job, log, partial(OwnScript, Command([python, *words], folder, dict(os.environ))))
        assert failure is None, failure
        entries = log.slice(0, log.last_seq)
    text = "".join(
        one["data"]["text"] for one in entries if one["kind"] == "output" and one["data"]["stream"] == "stdout"
    )
    return text, entries
