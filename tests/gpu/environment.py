"""``make gpu-check``: finds or makes a Python that can run the checks, runs them slice by slice, keeps what they leave.

Needs Python 3.8 or newer and NVIDIA's driver. First it looks for a GPU: without one it says so and ends with 77, and
nothing is made. Where a registry can be reached it then makes an environment of its own, of the packages that tbd pins
for PyTorch's CUDA build, in FOLDER/environment; it says how large that is first. Else it takes a Python of this host
that has torch with CUDA, numpy, psutil and pynvml. Each slice is a process of its own.
"""

import argparse
import ctypes
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Dict, List, Sequence, Tuple

from tests.gpu import fixtures

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = ROOT / "workers" / "interpreters" / "pytorch" / "requirements-cuda.txt"
CONSTRAINTS = ROOT / "constraints.txt"
# Beside PyTorch's: what reads NVML and the processes, and the implementation that ResNet-50 is held against, of the
# release that goes with the pinned torch (pytorch/vision, README, "Installation").
BESIDE = ("nvidia-ml-py", "psutil")
PUBLIC = "torchvision==0.28.0"
# Measured on 2026-11-22 (``make cuda-names``), and what the packages beside take.
DOWNLOAD_GB, INSTALLED_GB = 2.8, 5.1
OLDEST, NEWEST = (3, 11), (3, 13)
DRIVER = 580  # workers/interpreters/cuda/needs.toml, which Python before 3.11 cannot read
NO_GPU, NO_PYTHON = 77, 2
SLICE_S = 480.0
REACH_S = 40.0

LACKS = """
import importlib, sys
lacks = []
for name in ("torch", "numpy", "psutil", "pynvml"):
    try:
        importlib.import_module(name)
    except Exception as error:
        lacks.append("%s (%s)" % (name, type(error).__name__))
if not lacks and "--cuda" in sys.argv and not sys.modules["torch"].cuda.is_available():
    lacks.append("a GPU for torch %s" % sys.modules["torch"].__version__)
print("; ".join(lacks))
"""


class HereError(Exception):
    """The checks cannot be run here; the message says why and what to do."""


def gpus() -> Tuple[int, str]:
    """Return (how many GPUs the driver shows, its version), and where there is none (0, why); needs no package."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return 0, "there is no libnvidia-ml.so.1: NVIDIA's driver is not installed, or not given to this container"
    status = nvml.nvmlInit_v2()
    if status != 0:
        return 0, f"NVML does not begin: code {status} (9: the driver is not loaded)"
    try:
        count, version = ctypes.c_uint(), ctypes.create_string_buffer(96)
        status = nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
        if status != 0 or count.value == 0:
            return 0, f"the driver shows no GPU (code {status})"
        nvml.nvmlSystemGetDriverVersion(version, ctypes.c_uint(len(version)))
        return count.value, version.value.decode()
    finally:
        nvml.nvmlShutdown()


def candidates() -> List[str]:
    """Return the Pythons of this host: on the PATH, of pyenv, conda and where images put them."""
    names = ["python3", "python", *(f"python3.{minor}" for minor in range(14, 7, -1))]
    found = [shutil.which(name) for name in names]
    homes = [Path.home() / ".pyenv/versions", Path.home() / "miniconda3/envs", Path("/opt/conda/envs"), Path("/opt")]
    for home in homes:
        found += [str(path) for path in sorted(home.glob("*/bin/python3"))]
    found += [str(path) for path in (Path("/opt/conda/bin/python3"), Path("/usr/local/bin/python3"))]
    unique: Dict[str, None] = {}
    for path in found:
        if path and os.access(path, os.X_OK):
            unique.setdefault(path)
    return list(unique)


def lacks(python: str, cuda: bool) -> str:
    """Return what a Python lacks for the checks, "" where it has all."""
    command = [python, "-c", LACKS, *(["--cuda"] if cuda else [])]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=120)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"it does not run ({type(error).__name__})"
    return done.stdout.strip() if done.returncode == 0 else f"it ends with {done.returncode}"


def of_the_host(cuda: bool) -> str:
    """Return a Python of this host that has all that is needed.

    Raises:
        HereError: none has; says what the best of them lack.
    """
    told = []
    for python in candidates():
        why = lacks(python, cuda)
        if not why:
            return python
        told.append((len(why.split(";")), python, why))
    lines = [f"  {python}: lacks {why}" for _, python, why in sorted(told)[:5]]
    raise HereError("no Python of this host can run the checks:\n" + "\n".join(lines))


def makers() -> List[str]:
    """Return the Pythons that can make the environment of the pinned packages."""
    script = "import ensurepip, sys, venv; print(*sys.version_info[:2])"
    found = []
    for python in candidates():
        done = subprocess.run([python, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        version = tuple(int(part) for part in done.stdout.split()) if done.returncode == 0 else (0, 0)
        if OLDEST <= version <= NEWEST:
            found.append(python)
    return found


def pins() -> List[str]:
    """Return what is installed beside PyTorch's requirements, in the versions that tbd itself pins."""
    known = dict(line.split("==") for line in CONSTRAINTS.read_text().splitlines() if "==" in line)
    return [f"{name}=={known[name]}" for name in BESIDE]


def made(folder: Path, driver: str) -> str:
    """Return the Python of the environment in ``folder``, which is made where it is not there yet.

    Raises:
        HereError: it cannot be made here, and why.
    """
    wanted = REQUIREMENTS.read_text() + "\n".join([*pins(), PUBLIC])
    place = folder / ("environment-" + hashlib.sha256(wanted.encode()).hexdigest()[:12])
    python, ready = place / "bin" / "python", place / "ready.json"
    if ready.exists():
        return str(python)
    _check(folder, driver)
    maker = next((one for one in makers() if _reaches(one)), None)
    if maker is None:
        raise HereError("no Python 3.11 to 3.13 with venv here reaches a package registry that has the CUDA build")
    sizes = f"{DOWNLOAD_GB:.1f} GB to download, {INSTALLED_GB:.1f} GB on disk"
    print(f"gpu-check: making its environment in {place}: {sizes}", flush=True)
    shutil.rmtree(place, ignore_errors=True)
    subprocess.run([maker, "-m", "venv", str(place)], check=True)
    _pip(python, "-r", str(REQUIREMENTS), *pins())
    try:
        _pip(python, "--no-deps", PUBLIC)
    except HereError as error:  # without it ResNet-50 stands alone, which is said where it is judged
        print(f"gpu-check: {error}", file=sys.stderr)
    ready.write_text(json.dumps({"made": time.time()}))
    return str(python)


def _check(folder: Path, driver: str) -> None:
    if int(re.match(r"\d*", driver).group() or 0) < DRIVER:  # type: ignore[union-attr]
        raise HereError(f"the pinned CUDA build needs NVIDIA's driver {DRIVER} or newer, and this machine has {driver}")
    free = shutil.disk_usage(str(folder)).free / 1e9
    if free < DOWNLOAD_GB + INSTALLED_GB:
        raise HereError(f"{folder} has {free:.1f} GB free, {DOWNLOAD_GB + INSTALLED_GB:.1f} GB are needed")


def _reaches(python: str) -> bool:
    """Whether its pip finds PyTorch's CUDA build in a registry. Only versions are asked for: of an index without
    metadata files a dry run would download the wheel. The CPU build's have another name."""
    pin = next(line for line in REQUIREMENTS.read_text().splitlines() if line.startswith("torch=="))
    command = [python, "-m", "pip", "index", "versions", "torch", "--retries", "1", "--timeout", "10"]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=REACH_S)
    except (subprocess.TimeoutExpired, OSError):
        return False
    return pin.partition("==")[2].strip() in re.findall(r"[^\s,()]+", done.stdout)


def _pip(python: Path, *arguments: str) -> None:
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise HereError(f"pip cannot install {arguments[-1]}: {done.stderr[-500:]}")


def chosen(folder: Path, driver: str, rehearse: bool) -> str:
    """Return the Python that runs the checks.

    Raises:
        HereError: there is none and none can be made.
    """
    if rehearse:
        return of_the_host(False)
    try:
        return made(folder, driver)
    except HereError as error:
        print(f"gpu-check: no environment of its own: {error}", file=sys.stderr, flush=True)
        return of_the_host(True)


def run(python: str, slices: Sequence[str], out: Path, more: Sequence[str]) -> int:
    """Run each slice in a process of its own, with ``more`` options; return 1 if one is not well."""
    status = 0
    for name in slices:
        command = [python, "-m", "tests.gpu.check", name, "--out", str(out), *more]
        begun = time.monotonic()
        try:
            ended = subprocess.run(command, cwd=str(ROOT), timeout=SLICE_S).returncode
        except subprocess.TimeoutExpired:
            print(f"NOT OK     slice {name}: it took longer than {SLICE_S:.0f} s and was ended", flush=True)
            fixtures.write_ended(out, name, time.monotonic() - begun)
            ended = 1
        status = status or (1 if ended else 0)
    return status


def main(arguments: Sequence[str]) -> int:
    """Run the command line; return its exit status."""
    parser = argparse.ArgumentParser(prog="python3 -m tests.gpu.environment", description=__doc__.splitlines()[0])
    parser.add_argument("slices", nargs="*", metavar="SLICE", help=", ".join(fixtures.slices()) + " (default: all)")
    parser.add_argument("--out", type=Path, default=Path("gpu-check"), help="folder for all it leaves (gpu-check)")
    parser.add_argument("--rehearse", action="store_true", help="go through it on the CPU, with small sizes")
    parser.add_argument("--seconds", type=float, metavar="S", help="no phase longer: a first look")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.slices if name not in fixtures.slices()]
    if unknown:
        parser.error("there is no slice " + ", ".join(unknown))
    count, told = gpus()
    if not count and not options.rehearse:
        print(f"gpu-check: there is no GPU here: {told}", file=sys.stderr)
        return NO_GPU
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    try:
        python = chosen(out, told, options.rehearse)
    except HereError as error:
        print(f"gpu-check: {error}", file=sys.stderr)
        return NO_PYTHON
    print(f"gpu-check: by {python}", flush=True)
    more = ["--rehearse"] * options.rehearse
    more += [] if options.seconds is None else ["--seconds", str(options.seconds)]
    status = run(python, options.slices or fixtures.slices(), out, more)
    for line in fixtures.gather(out):
        print(f"gpu-check: {line}", flush=True)
    print((out / fixtures.FOLDER / "table.md").read_text())
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
