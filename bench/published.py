"""How fast the suite's networks train / the best-known implementation of the same network that is published.

For image classifiers that is pytorchcv's (https://pypi.org/project/pytorchcv), which needs torch and numpy alone for
these; for attention models that of transformers (https://pypi.org/project/transformers); for Mask R-CNN torchvision's
(https://pypi.org/project/torchvision), for Seq2Seq JoeyNMT's (https://pypi.org/project/joeynmt), for A3C A2C of
stable-baselines3 (https://pypi.org/project/stable-baselines3), with its own loop; for Faster R-CNN in MXNet that of
GluonCV (https://pypi.org/project/gluoncv). Of a network that nobody publishes for this torch it is PyTorch's own
modules, put together (``published_modules``). The others are installed into a folder each, which only its own processes
see: transformers imports any torchvision that it finds, and this one lacks operators. Both sides are the same loop in
the same interpreter, with the same weights, batches, loss, dropout and optimiser: what differs is the network's code.
Each reading is a fresh process on one core, ``published_loop``.
"""

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bench.ratio import PILOT, Ratio, in_turn, pairs_for, ratio
from orchestrator.services.facts.catalog import load_catalog
from orchestrator.services.probe import parity
from workers.node.interpreters import resolve

ROOT = Path(__file__).resolve().parents[1]


class Network(NamedTuple):
    """``kit``: who published it, ``published``: its name there (see ``published_<kit>.make``). ``batch``: such that a
    step takes some 0.3 to 2 s on one core. ``drops_alike``: whether it draws random numbers for its dropout only.
    ``data``: its dataset, a folder of ``suites.datasets``, where batches are not synthetic. ``framework``: in which
    both are trained. ``warm_up_steps``, ``steps``: judgements; a network has settled after so many, and so many tell
    its speed in a process to about a percent."""

    model: str
    options: Mapping[str, Any]
    kit: str
    published: str
    batch: int
    drops_alike: bool = True
    data: str | None = None
    framework: str = "pytorch"
    warm_up_steps: int = 3
    steps: int = 10


# pytorchcv's "b" has the stride in the 3 x 3 convolution, as the suite's. Marian is the Transformer of the paper;
# torch.nn.Transformer is PyTorch's own, and has neither embeddings nor an output.
NETWORKS = {
    "resnet-50": Network("resnet-50", {}, "pytorchcv", "resnet.resnet50b", 4),
    "resnet-101": Network("resnet-50", {"depth": 101}, "pytorchcv", "resnet.resnet101b", 4),
    "resnet-152": Network("resnet-50", {"depth": 152}, "pytorchcv", "resnet.resnet152b", 4),
    "inception-v3": Network("inception-v3", {}, "pytorchcv", "inceptionv3.inceptionv3", 4),
    "transformer": Network("transformer", {}, "transformers", "MarianMTModel", 8, drops_alike=False),
    "bert-base": Network("bert-base", {}, "transformers", "BertForPreTraining", 4),
    "bert-base-finetune": Network("bert-base", {"task": "finetune"}, "transformers", "BertForQuestionAnswering", 2),
    "gpt-2": Network("gpt-2", {}, "transformers", "GPT2LMHeadModel", 1),
    "deep-speech-2": Network("deep-speech-2", {}, "modules", "DeepSpeech2", 2, warm_up_steps=1, steps=3),
    "wgan-gp": Network("wgan-gp", {}, "modules", "WganGp", 2),
    "seq2seq": Network("seq2seq", {}, "joeynmt", "RecurrentDecoder", 32),
    "a3c": Network("a3c", {}, "stable_baselines3", "A2C", 32, drops_alike=False, data="pong"),
    "faster-rcnn": Network("faster-rcnn", {}, "gluoncv", "FasterRCNN", 1, framework="mxnet"),
    "mask-rcnn": Network("mask-rcnn", {}, "torchvision", "maskrcnn_resnet50_fpn", 1),
}
SIZE, SEED = "small", 1
WANTED = "0.97 or more, lower bound >= 0.93"
# Of the first loss, between the two: rounding of one network, and no more.
SAME_LOSS = 1e-4
# Kits all of whose operations PyTorch counts, and which have no operation more than the suite.
SAME_WORK = ("pytorchcv", "transformers")


@contextmanager
def rig() -> Iterator[Path]:
    """The folder with the published implementations, each in one named as its kit."""
    with tempfile.TemporaryDirectory(prefix="published-") as folder:
        pip = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--require-hashes"]
        for kit, framework in sorted({(network.kit, network.framework) for network in NETWORKS.values()}):
            pinned, interpreter = Path(__file__).parent / f"published_{kit}.txt", resolve(framework)
            if pinned.exists() and interpreter.ready:
                command = [str(interpreter.python), *pip, "--target", f"{folder}/{kit}", "-r", str(pinned)]
                subprocess.run(command, check=True)
        for data in {network.data for network in NETWORKS.values() if network.data}:
            make = [
                str(resolve("datasets").python),
                "-m",
                f"suites.datasets.{data}.prepare",
                "--root",
                f"{folder}/{data}",
            ]
            subprocess.run(make, cwd=ROOT, check=True)
        yield Path(folder)


def measure(folder: Path, pairs: int, only: Collection[str] = ()) -> list[Ratio]:
    """The ratios of the networks named in ``only``; of all where none is named. ``pairs``: 0 for as many as a pilot
    says."""
    return [_measured(folder, name, pairs) for name in NETWORKS if not only or name in only]


def _measured(folder: Path, name: str, pairs: int) -> Ratio:
    """The ratio of one network.

    Raises:
        RuntimeError: see ``check``.
    """
    network, told = NETWORKS[name], dict[str, dict[str, float]]()

    def rate(side: str) -> float:
        told[side] = read(folder, network, side)
        return told[side]["samples_per_s"]

    def series(count: int) -> tuple[list[float], list[float]]:
        return in_turn(count, lambda: rate("ours"), lambda: rate("published"))

    ours, theirs = series(pairs or pairs_for(*series(PILOT)))
    check(name, told["ours"], told["published"])
    counted = " and ".join(f"{told[side]['operations']:,}" for side in ("ours", "published"))
    print(f"  {name}: operations of a step, ours and theirs: {counted}", file=sys.stderr, flush=True)
    return ratio(
        f"{name} `{SIZE}` in {network.framework}, batch {network.batch} / {network.kit}'s", WANTED, ours, theirs
    )


def check(name: str, ours: Mapping[str, float], theirs: Mapping[str, float]) -> None:
    """Check what a reading of each side tells.

    Raises:
        RuntimeError: the two are not the same network, or do not drop the same: their first losses differ; or, of
            ``SAME_WORK``, they do not compute as many operations.
    """
    if NETWORKS[name].kit in SAME_WORK and ours["operations"] != theirs["operations"]:
        told = f"a step has {ours['operations']:,} operations and {theirs['operations']:,}"
        raise RuntimeError(f"{name}: {told}: one of them computes what the other does not")
    for loss in ("loss", "dropped_loss") if NETWORKS[name].drops_alike else ("loss",):
        if not math.isclose(ours[loss], theirs[loss], rel_tol=SAME_LOSS):
            raise RuntimeError(
                f"{name}: with the same weights {loss} is {ours[loss]} and {theirs[loss]}: these are two networks"
            )


def read(folder: Path, network: Network, side: str, size: str = SIZE) -> dict[str, float]:
    """What a fresh process of one side, "ours" or "published", tells: ``samples_per_s``, ``loss`` of the first batch
    without dropout, and ``dropped_loss``, with it; ``operations`` of a step, as PyTorch counts them, 0 in MXNet."""
    interpreter = resolve(network.framework)
    core = min(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="published-job-") as own:
        path = Path(own) / "job.json"
        path.write_text(json.dumps(job(folder, network, size, core)))
        path_there = f"{ROOT}{os.pathsep}{folder / network.kit}"
        environment = {**os.environ, **interpreter.environment, "PYTHONPATH": path_there}
        # What a side compiles is compiled once for all of its processes, and nobody else's.
        environment["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "compiled")
        loop = [str(interpreter.python), "-m", "bench.published_loop"]
        done = subprocess.run(
            ["taskset", "-c", str(core), *loop, side, network.kit, network.published, str(path)],
            cwd=ROOT,
            env=environment | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def job(folder: Path, network: Network, size: str, core: int) -> dict[str, Any]:
    """As for a comparison of frameworks, but with dropout, as when it is timed."""
    facts = load_catalog().models[network.model]
    table = parity.size_of(facts, size, network.options)
    found = parity.job(facts, network.framework, table, network.batch, SEED, [core], network.options)
    found["model"]["sizes"] = {"compared": dict(table)}
    found["plan"] |= {"warm_up_steps": network.warm_up_steps, "steps": network.steps}
    dataset = {"root": str(folder / network.data)} if network.data else None
    return found | {"process": "worker0", "dataset": dataset}
