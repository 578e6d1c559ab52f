"""The checks that need a GPU: ``make gpu-check``, or ``python3 -m tests.gpu.check [SLICE …] [--out FOLDER]``.

Needs Python 3.8 or newer with torch, numpy, psutil and pynvml (``tests.gpu.environment`` finds or makes one); no Ray,
no database, no control plane. Jobs go through ``python -m workers.node``; their logs stay in FOLDER and can become
replays. Each slice takes 8 minutes or less. Exit
status: 0 all that could be judged is well, 1 something is not, 77 there is no GPU here. ``--rehearse`` goes through the
same on the CPU, with small sizes, and judges nothing that needs a GPU.
"""

import argparse
import functools
import json
import math
import platform
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from tests.gpu import fixtures, jobs, verdicts
from tests.gpu.verdicts import Verdict
from workers.node.inventory import Inventory
from workers.node.telemetry import ncu
from workers.node.telemetry.nvml import Nvml
from workers.trainer import protocol

NO_GPU = 77
FAILED = "failed: "
PRODUCT_SIDE = 4096
PAIRS, RESTARTS = 6, 10
TRAINING_S = 30.0
COMPARED_S = 20.0
# Samples of a step where 64 are not usual: the papers', or what their lengths make of them.
BATCHES = {"a3c": 16, "deep_speech_2": 16, "faster_rcnn": 1, "gpt_2": 16, "mask_rcnn": 1}
# As fast as PyTorch makes them, beside others' as fast.
FAST = {
    "resnet_50": (256, {"channels_last": True, "compile": True, "fused_optimizer": True}),
    "bert_base": (128, {"compile": True, "fused_optimizer": True}),
    "gpt_2": (16, {"compile": True, "fused_optimizer": True}),
}
WARM_UP_S = 10.0
POLL_S = 0.2
# What a job may take beyond its timed phase: start of the interpreter, build, profiles.
JOB_LIMIT_S = 475.0


class Bench:
    """The device, the folder for logs, and how long things take: small where it is only a rehearsal."""

    def __init__(
        self,
        device: Dict[str, Any],
        out: Path,
        rehearse: bool,
        nvml: Optional[Nvml] = None,
        most_s: float = math.inf,
    ) -> None:
        self.device, self.out, self.rehearse, self.nvml = device, out, rehearse, nvml
        self.sheet = jobs.sheet(device["name"])
        self._most_s = most_s

    def seconds(self, wanted: float, rehearsed: float = 2.0) -> float:
        """Return how long a phase is that wants so long."""
        return min(rehearsed if self.rehearse else wanted, self._most_s)

    def run(self, model: str, name: str, **changes: Any) -> List[Dict[str, Any]]:
        """Carry out a job and return the entries of its log.

        Raises:
            RuntimeError: it failed.
        """
        log = self.out / (name + ".jsonl")
        log.unlink(missing_ok=True)
        job = self.out / (name + ".job.json")
        job.write_text(json.dumps(jobs.job(model, self.device, name, **changes)))
        command = [sys.executable, "-m", "workers.node", str(job), "--events", str(log)]
        done = subprocess.run(command, cwd=str(jobs.ROOT), stderr=subprocess.PIPE, timeout=JOB_LIMIT_S, text=True)
        if done.returncode:
            raise RuntimeError(name + ": " + done.stderr[-2000:])
        return [json.loads(line) for line in log.read_text().splitlines()]

    def train(self, name: str, seconds: float, model: str = "resnet_50", **changes: Any) -> List[Dict[str, Any]]:
        """Train ``model`` for so long; a batch that does not fit is halved."""
        wanted = changes.pop("batch", BATCHES.get(model, 64))
        size, batch = ("tiny", 4) if self.rehearse else ("full", wanted)
        asked = {"size": size, "seconds": self.seconds(seconds), "warm_up_s": 0.0, **changes}
        while True:
            try:
                return self.run(model, name, per_device_batch_size=batch, **asked)
            except RuntimeError as error:
                if batch == 1 or "out_of_memory" not in str(error):
                    raise
                batch //= 2


class Poller:
    """Asks the driver again and again, beside a job that is not timed, how much memory processes hold on a device."""

    def __init__(self, nvml: Nvml, uuid: str) -> None:
        self.polled: List[Tuple[float, Optional[int]]] = []
        self._nvml, self._uuid = nvml, uuid
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)

    def _poll(self) -> None:
        while True:
            self.polled.append((time.monotonic(), self._nvml.processes_memory(self._uuid)))
            if self._end.wait(POLL_S):
                return

    def __enter__(self) -> "Poller":
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._end.set()
        self._thread.join()


def products(bench: Bench) -> List[Verdict]:
    """Matrix products: operations counted by ncu; GPM's pipes against the operations that were done."""
    arithmetics, shape = ("fp32", "128") if bench.rehearse else ("fp32,bf16", "8192")
    seconds = bench.seconds(40.0, rehearsed=1.0)
    options = {"arithmetics": arithmetics, "shapes": shape, "load_s": seconds, "measure_s": seconds}
    entries = bench.run("calibration", "products", options=options)
    sheet = bench.sheet or {}
    fp32 = 2.0 * sheet["cores"] if sheet else None
    clock = sheet.get("tensor_clock_hz", sheet.get("boost_clock_hz"))
    bf16 = sheet["flops_per_s"]["bf16"] / clock if sheet.get("flops_per_s", {}).get("bf16") else None
    return [
        counted_product(bench.out / "ncu-product.csv"),
        verdicts.pipe(entries, "fp32", "fp32_pipe_ratio", fp32, verdicts.FP32_POINTS),
        verdicts.pipe(entries, "bf16", "tensor_pipe_ratio", bf16, verdicts.TENSOR_POINTS, verdicts.TENSOR_SPARE),
    ]


def counted_product(log: Path) -> Verdict:
    """One product under ncu, whose words become ``log``."""
    wanted = 2.0 * PRODUCT_SIDE**3
    where = ncu.path()
    if where is None:
        return verdicts.operations(wanted, None)
    log.unlink(missing_ok=True)
    prefix = ncu.command(where, str(log), ncu.available(where))
    command = [*prefix, sys.executable, "-m", "tests.gpu.one_product", str(PRODUCT_SIDE)]
    done = subprocess.run(command, cwd=str(jobs.ROOT), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        kernels = ncu.parse(log.read_text() if log.exists() else "")
    except ncu.NcuError as error:
        return verdicts.operations(wanted, None, str(error) + " " + done.stdout[-300:])
    found = [ncu.operations(kernel.metrics)["fp32"] for kernel in kernels]
    return verdicts.operations(wanted, sum(value for value in found if value is not None) if found else None)


def training(bench: Bench, model: str) -> List[Verdict]:
    """fp32 trainings of a model: tensor pipes stay idle; the memory profile against the driver."""
    attends = jobs.toml(jobs.ROOT / "suites" / "models" / model / "model.toml").get("dominant_layer") == "attention"
    most = verdicts.ATTENTION_RATIO if attends else verdicts.IDLE_RATIO
    found = [verdicts.idle_tensor_pipe(bench.train(f"training-{model}", TRAINING_S, model), most)]
    if bench.nvml is not None:
        with Poller(bench.nvml, bench.device["id"]) as poller:
            entries = bench.train(f"memory-{model}", 5.0, model, profile=["memory"])
        found.append(verdicts.memory(entries, poller.polled))
    return [verdict._replace(name=f"{model}: {verdict.name}") for verdict in found]


def kernels(bench: Bench) -> List[Verdict]:
    """The kernel table of ResNet-50, its operations counted in hardware where ncu is on the PATH."""
    entries = bench.train("kernels", 10.0, batch=16, profile=["kernels", "layers"])
    return [verdicts.kernels(entries, None if bench.rehearse else ncu.path())]


def telemetry(bench: Bench) -> List[Verdict]:
    """The same training with telemetry and without, turn by turn."""

    def timed(index: int, with_it: bool) -> Optional[float]:
        name = "telemetry-{}-{}".format(index, "with" if with_it else "without")
        sample_s = 0.5 if with_it else 1e6
        return verdicts.steps_per_s(bench.train(name, 20.0, sample_s=sample_s, warm_up_s=bench.seconds(WARM_UP_S)))

    return [verdicts.pairs("throughput with telemetry / without", turns(bench, timed))]


def bare(bench: Bench) -> List[Verdict]:
    """ResNet-50 in amp-bf16 as a job, and in a plain loop without an agent, turn by turn."""

    def timed(index: int, as_job: bool) -> Optional[float]:
        name, warm_up_s = "bare-{}-{}".format(index, "job" if as_job else "loop"), bench.seconds(WARM_UP_S)
        entries = {"precision": "fp32" if bench.rehearse else "amp-bf16", "warm_up_s": warm_up_s}
        if as_job:
            return verdicts.steps_per_s(bench.train(name, 20.0, **entries))
        size = {"size": "tiny", "per_device_batch_size": 4} if bench.rehearse else {"per_device_batch_size": 64}
        made = jobs.job("resnet_50", bench.device, name, **entries, **size)
        job = bench.out / (name + ".job.json")
        job.write_text(json.dumps({**made, "process": made["processes"][0]["name"]}))
        said = said_by("tests.gpu.bare_loop", str(job), str(warm_up_s), str(bench.seconds(20.0)))
        return float(json.loads(said.splitlines()[-1])["steps_per_s"])

    return [verdicts.pairs("throughput as a job / in a plain loop", turns(bench, timed))]


def turns(bench: Bench, timed: Callable[[int, bool], Optional[float]]) -> List[Tuple[float, float]]:
    """Return the pairs of what ``timed`` says with its second argument true, and false."""
    pairs = []
    for index in range(2 if bench.rehearse else PAIRS):
        # The order changes from pair to pair: a device that warms up favours neither.
        order = (True, False) if index % 2 else (False, True)
        found = {which: timed(index, which) for which in order}
        pairs.append((found[True] or 0.0, found[False] or float("nan")))
    return pairs


def restarts(bench: Bench) -> List[Verdict]:
    """The same training, ten times from the start."""
    entries = [bench.train(f"restart-{index}", 25.0) for index in range(2 if bench.rehearse else RESTARTS)]
    rates = [verdicts.steps_per_s(one) for one in entries]
    return [verdicts.restarts([found for found in rates if found is not None])]


def warmth(bench: Bench) -> List[Verdict]:
    """ResNet-50 in amp-bf16 for a minute after the usual warm-up: is it as fast in the end as in the beginning?"""
    precision, batch = ("fp32", 4) if bench.rehearse else ("amp-bf16", 256)
    warm_up_s = bench.seconds(protocol.WARM_UP_S, rehearsed=0.0)
    return [verdicts.warmth(bench.train("warmth", 60.0, batch=batch, precision=precision, warm_up_s=warm_up_s))]


def traces(bench: Bench) -> List[Verdict]:
    """Kineto's own file of three steps, by other arithmetic than tbd's; and all that NVML answers, for fixtures."""
    found = []
    for precision in ("fp32",) if bench.rehearse else ("fp32", "amp-bf16"):
        job, trace = bench.out / f"trace-{precision}.job.json", bench.out / f"kineto-{precision}.json"
        size = {"size": "tiny", "per_device_batch_size": 4} if bench.rehearse else {"per_device_batch_size": 64}
        made = jobs.job("resnet_50", bench.device, f"trace-{precision}", precision=precision, **size)
        job.write_text(json.dumps({**made, "process": made["processes"][0]["name"]}))
        own = json.loads(said_by("tests.gpu.raw_trace", str(job), str(trace)).splitlines()[-1])
        found.append(verdicts.trace(precision, own, trace))
    if bench.device["kind"] == "cuda":
        said_by("tests.gpu.nvml_dump", str(bench.out / "nvml.json"))
    return found


def resnet(bench: Bench, precision: str) -> List[Verdict]:
    """ResNet-50 in one precision, without switches, beside others' alike."""
    return [beside(bench, "resnet_50", precision, 64, {}, verdicts.BESIDE_RATIO)]


def fast(bench: Bench, model: str) -> List[Verdict]:
    """A model in amp-bf16, as fast as PyTorch makes it, beside others' as fast."""
    batch, options = FAST[model]
    precision = "fp32" if bench.rehearse else "amp-bf16"
    return [beside(bench, model, precision, batch, {} if bench.rehearse else options, verdicts.FAST_RATIO)]


def beside(bench: Bench, model: str, precision: str, batch: int, options: Dict[str, bool], least: float) -> Verdict:
    """Train tbd's network and then another's of the same size, on batches that lie on the device."""
    batch = 4 if bench.rehearse else batch
    seconds, warm_up_s = bench.seconds(COMPARED_S), bench.seconds(WARM_UP_S, rehearsed=0.0)
    name = f"{'fast' if options else 'plain'}-{model}-{precision}"
    entries = bench.train(name, seconds, model, batch=batch, precision=precision, options=options, warm_up_s=warm_up_s)
    sizes = jobs.toml(jobs.ROOT / "suites" / "models" / model / "model.toml")["sizes"]
    order = {
        "size": sizes["tiny" if bench.rehearse else "full"],
        "precision": precision,
        "batch": batch,
        "seconds": seconds,
        "warm_up_s": warm_up_s,
        "device": bench.device["kind"],
        "fast": bool(options),
    }
    try:
        public = json.loads(said_by("tests.gpu.public", model, json.dumps(order)).splitlines()[-1])
    except RuntimeError as error:
        public = {"of": str(error).strip().splitlines()[-1]}
    return verdicts.beside(f"{model} {precision}{', fast' if options else ''}", entries, batch, public, least)


def said_by(module: str, *arguments: str) -> str:
    """Run a module in a process of its own; return what it printed.

    Raises:
        RuntimeError: it failed.
    """
    command = [sys.executable, "-m", module, *arguments]
    pipe = subprocess.PIPE
    done = subprocess.run(command, cwd=str(jobs.ROOT), stdout=pipe, stderr=pipe, timeout=JOB_LIMIT_S, text=True)
    if done.returncode:
        raise RuntimeError(f"{module}: {done.stderr[-1500:]}")
    return done.stdout


SLICES: Dict[str, Callable[[Bench], List[Verdict]]] = {
    "products": products,
    **{f"training-{model}": functools.partial(training, model=model) for model in fixtures.models()},
    "kernels": kernels,
    "traces": traces,
    "telemetry": telemetry,
    "restarts": restarts,
    "bare": bare,
    "warmth": warmth,
    **{f"resnet-{one}": functools.partial(resnet, precision=one) for one in fixtures.PRECISIONS},
    **{f"fast-{model}": functools.partial(fast, model=model) for model in fixtures.FAST},
}


def versions(nvml: Nvml) -> Dict[str, Any]:
    """Of all that the numbers may depend on."""
    import torch

    return {
        "python": platform.python_version(),
        "kernel": platform.release(),
        "driver": nvml.driver_version,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version() if torch.cuda.is_available() else None,
    }


def main(arguments: Sequence[str]) -> int:
    """Run the command line; return its exit status."""
    parser = argparse.ArgumentParser(prog="python3 -m tests.gpu.check", description=__doc__.splitlines()[0])
    parser.add_argument("slices", nargs="*", metavar="SLICE", help=", ".join(SLICES) + " (default: all)")
    parser.add_argument("--out", type=Path, default=Path("gpu-check"), help="folder for the logs (default gpu-check)")
    parser.add_argument("--rehearse", action="store_true", help="go through it on the CPU, with small sizes")
    parser.add_argument("--seconds", type=float, default=math.inf, metavar="S", help="no phase longer: a first look")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.slices if name not in SLICES]
    if unknown:
        parser.error("there is no slice " + ", ".join(unknown))
    options.out.mkdir(parents=True, exist_ok=True)
    nvml = Nvml()
    try:
        facts = Inventory(None, options.out, nvml).read()
        kind = "cpu" if options.rehearse else "cuda"
        device = next((found for found in facts["devices"] if found["kind"] == kind), None)
        if device is None:
            why = "; ".join(facts["gpus_withheld"].values()) or facts["unavailable"].get("gpus")
            print(f"gpu-check: there is no GPU here that can be had: {why}", file=sys.stderr)
            return NO_GPU
        bench = Bench(device, options.out, options.rehearse, nvml, options.seconds)
        return judge(bench, options.slices or list(SLICES), versions(nvml))
    finally:
        nvml.close()


def judge(bench: Bench, slices: Sequence[str], told: Dict[str, Any]) -> int:
    """Run the slices, print the verdicts and keep them in the folder; the exit status."""
    print("{}; {}".format(bench.device["name"], ", ".join("{} {}".format(*item) for item in told.items())))
    found: List[Verdict] = []
    for name in slices:
        begun = time.monotonic()
        try:
            own = SLICES[name](bench)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            own = [Verdict(name, False, f"{FAILED}{error}")]
        if bench.rehearse:  # what a CPU device shows is no evidence; a slice that breaks down still is
            own = [verdict if verdict.told.startswith(FAILED) else verdict._replace(ok=None) for verdict in own]
        found += own
        for verdict in own:
            word = {True: "ok", False: "NOT OK", None: "not judged"}[verdict.ok]
            print(f"{word:<10} {verdict.name}: {verdict.told}", flush=True)
        print(f"           slice {name} took {time.monotonic() - begun:.0f} s", flush=True)
    summary = {"device": bench.device, "versions": told, "verdicts": [verdict._asdict() for verdict in found]}
    (bench.out / "verdicts-{}.json".format("-".join(slices))).write_text(json.dumps(summary, indent=1))
    return 1 if any(verdict.ok is False for verdict in found) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
