"""How fast the suite's networks train in PyTorch / the best-known implementation of the same network that is published.

That is pytorchcv's (https://pypi.org/project/pytorchcv), which needs torch and numpy alone for these networks (it names
torchvision among its needs, and imports it for others only). It is installed into a folder of its own, which only the
processes of the benchmark see. Both sides are the same loop in the same interpreter, with the same weights, batches and
optimiser: what differs is the network's code. Each reading is a fresh process on one core, ``published_loop``.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from orchestrator.services import parity
from orchestrator.services.catalog import load_catalog
from tests.benchmarks.ratio import Ratio, in_turn, ratio
from workers.node.interpreters import resolve

ROOT = Path(__file__).resolve().parents[2]
PINNED = "pytorchcv==0.0.74 --hash=sha256:9043ef0bd73870234361363522192be60a1938b836030415cc3dd85e254d3ac2\n"  # MIT
# What is measured: model, its options, module and function of pytorchcv, whose "b" has the stride in the 3 x 3
# convolution, as the suite's.
NETWORKS: dict[str, tuple[str, Mapping[str, Any], str]] = {
    "ResNet-50": ("resnet-50", {}, "resnet.resnet50b"),
    "ResNet-101": ("resnet-50", {"depth": 101}, "resnet.resnet101b"),
    "ResNet-152": ("resnet-50", {"depth": 152}, "resnet.resnet152b"),
    "Inception-v3": ("inception-v3", {}, "inceptionv3.inceptionv3"),
}
SIZE, BATCH, SEED = "small", 4, 1
WANTED = "0.97 or more, lower bound >= 0.93"
# Judgements: a network has settled after so many steps, and so many tell its speed in a process to about a percent.
WARM_UP_STEPS, STEPS = 3, 10
# Of the first loss, between the two: rounding of one network, and no more.
SAME_LOSS = 1e-4


@contextmanager
def rig() -> Iterator[Path]:
    """The folder with the published implementation."""
    with tempfile.TemporaryDirectory(prefix="published-") as folder:
        wanted = Path(folder) / "requirements.txt"
        wanted.write_text(PINNED)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
        subprocess.run([*pip, "--target", folder, "-r", str(wanted)], check=True)
        yield Path(folder)


def measure(folder: Path, pairs: int) -> list[Ratio]:
    return [_measured(folder, name, pairs) for name in NETWORKS]


def _measured(folder: Path, name: str, pairs: int) -> Ratio:
    """The ratio of one network.

    Raises:
        RuntimeError: the two are not the same network: their first losses differ.
    """
    losses: dict[str, float] = {}

    def rate(side: str) -> float:
        told = _read(folder, name, side)
        losses[side] = told["loss"]
        return float(told["images_per_s"])

    ours, theirs = in_turn(pairs, lambda: rate("ours"), lambda: rate("published"))
    if abs(losses["ours"] / losses["published"] - 1) > SAME_LOSS:
        raise RuntimeError(f"{name}: with the same weights the first losses are {losses}: these are two networks")
    return ratio(f"{name} `{SIZE}` in PyTorch, batch {BATCH} / pytorchcv's", WANTED, ours, theirs)


def _read(folder: Path, name: str, side: str) -> dict[str, Any]:
    """What a fresh process of one side tells."""
    interpreter = resolve("pytorch")
    model, options, published = NETWORKS[name]
    facts = load_catalog().models[model]
    core = min(os.sched_getaffinity(0))
    job = parity.job(facts, "pytorch", parity.size_of(facts, SIZE, options), BATCH, SEED, [core], options)
    job["plan"]["warm_up_steps"], job["plan"]["steps"] = WARM_UP_STEPS, STEPS
    with tempfile.TemporaryDirectory(prefix="published-job-") as own:
        path = Path(own) / "job.json"
        path.write_text(json.dumps(job | {"process": "worker0"}))
        environment = {**os.environ, **interpreter.environment, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"}
        command = [str(interpreter.python), "-m", "tests.benchmarks.published_loop", side, published, str(path)]
        done = subprocess.run(
            ["taskset", "-c", str(core), *command],
            cwd=ROOT,
            env=environment | {"OMP_NUM_THREADS": "1"},
            check=True,
            capture_output=True,
            text=True,
        )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
