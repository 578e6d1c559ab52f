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

NO_GPU = 77
FAILED = "failed: "
PRODUCT_SIDE = 4096
PAIRS, RESTARTS = 6, 10
TRAINING_S = 30.0
COMPARED_S = 20.0
# ResNet-50 as fast as PyTorch makes it.
FAST = {"channels_last": True, "compile": True}
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
        """Train ``model`` for so long."""
        size, batch = ("tiny", 4) if self.rehearse else ("full", 64)
        seconds = self.seconds(seconds)
        while True:
            try:
                return self.run(model, name, size=size, per_device_batch_size=batch, seconds=seconds, **changes)
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
        verdicts.pipe(entries, "bf16", "tensor_pipe_ratio", bf16, verdicts.TENSOR_POINTS),
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
    found = [verdicts.idle_tensor_pipe(bench.train(f"training-{model}", TRAINING_S, model))]
    if bench.nvml is not None:
        with Poller(bench.nvml, bench.device["id"]) as poller:
            entries = bench.train(f"memory-{model}", 5.0, model, profile=["memory"])
        found.append(verdicts.memory(entries, poller.polled))
    return [verdict._replace(name=f"{model}: {verdict.name}") for verdict in found]


def kernels(bench: Bench) -> List[Verdict]:
    """The kernel table of ResNet-50, its operations counted in hardware where ncu is on the PATH."""
    entries = bench.train("kernels", 10.0, profile=["kernels", "layers"])
    return [verdicts.kernels(entries, None if bench.rehearse else ncu.path())]


def telemetry(bench: Bench) -> List[Verdict]:
    """The same training with telemetry and without, turn by turn."""
    pairs = []
    for index in range(2 if bench.rehearse else PAIRS):
        rates = {}
        # The order changes from pair to pair: a device that warms up favours neither.
        for with_it in (True, False) if index % 2 else (False, True):
            name = "telemetry-{}-{}".format(index, "with" if with_it else "without")
            rates[with_it] = verdicts.rate(bench.train(name, 20.0, sample_s=0.5 if with_it else 1e6))
        pairs.append((rates[True] or 0.0, rates[False] or float("nan")))
    return [verdicts.telemetry(pairs)]


def restarts(bench: Bench) -> List[Verdict]:
    """The same training, ten times from the start."""
    entries = [bench.train(f"restart-{index}", 25.0) for index in range(2 if bench.rehearse else RESTARTS)]
    rates = [verdicts.rate(one) for one in entries]
    return [verdicts.restarts([found for found in rates if found is not None])]


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
    """ResNet-50 in one precision, as it is and as fast as PyTorch makes it, each beside torchvision's."""
    found = []
    seconds, batch = bench.seconds(COMPARED_S), 4 if bench.rehearse else 64
    place = "host" if bench.rehearse else "device"  # where torchvision's batch lies
    for name, options in (("plain", {}), ("channels-last, compiled", FAST)):
        if bench.rehearse and options:
            continue
        label = f"resnet-{precision}-{'fast' if options else 'plain'}"
        own = verdicts.rate(bench.train(label, seconds, precision=precision, options=options, data_on=place))
        arguments = [precision, str(batch), str(seconds), bench.device["kind"], *(["--fast"] if options else [])]
        try:
            public = json.loads(said_by("tests.gpu.public_resnet", *arguments).splitlines()[-1])["images_per_s"]
        except RuntimeError as error:
            public, why = None, str(error).strip().splitlines()[-1]
        found.append(verdicts.beside(f"ResNet-50 {precision}, {name}", own, public, "" if public else why))
    return found


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
    **{f"resnet-{one}": functools.partial(resnet, precision=one) for one in fixtures.PRECISIONS},
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
