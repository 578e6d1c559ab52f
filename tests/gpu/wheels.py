"""``make cuda-names``: PyTorch's CUDA build imported where there is no GPU, and each of its names in use tried.

Makes an environment of the pinned packages in a folder of its own, runs ``tests.gpu.names`` there, and removes it
again. Says the size first. Exit status: 0 all names are well, 1 one is not, 2 it cannot be had here, with the reason.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Dict, List, Optional, Sequence

from workers.node import pythons

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = ROOT / "workers" / "interpreters" / "pytorch" / "requirements-cuda.txt"
# Of one Python the index may have the CPU build under the same pin, and the CUDA build of another.
VERSIONS = ("3.12", "3.13", "3.11")
# Measured on 2026-11-22, Linux on x86-64: download, and on disk once installed.
DOWNLOAD_BYTES, INSTALLED_BYTES = 2_700_000_000, 5_000_000_000


class RefusedError(Exception):
    """It cannot be done here; the message says why."""


def chosen(versions: Sequence[str]) -> str:
    """Return the first Python of these versions for which the index has PyTorch's CUDA build.

    Raises:
        RefusedError: there is none.
    """
    told = []
    for version in versions:
        python = pythons.find(version)
        if python is None:
            told.append(f"Python {version} is not here")
            continue
        found = _offered(python)
        if found is not None and "+cpu" not in found:
            return python
        told.append(f"for Python {version} the index has " + (f"torch {found}" if found else "no such torch"))
    raise RefusedError("no CUDA build of PyTorch can be had: " + "; ".join(told))


def _offered(python: str) -> Optional[str]:
    """Return the version of torch that pip would install, with its local part; nothing is installed."""
    pin = next(line for line in REQUIREMENTS.read_text().splitlines() if line.startswith("torch=="))
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [python, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--no-deps", "--quiet"]
        done = subprocess.run([*command, "--report", str(report), pin], cwd=folder, stderr=subprocess.DEVNULL)
        if done.returncode:
            return None
        return str(json.loads(report.read_text())["install"][0]["metadata"]["version"])


def check_room(folder: Path) -> None:
    """See that both fit.

    Raises:
        RefusedError: they do not.
    """
    free = shutil.disk_usage(str(folder)).free
    if free < DOWNLOAD_BYTES + INSTALLED_BYTES:
        needed = (DOWNLOAD_BYTES + INSTALLED_BYTES) / 1e9
        raise RefusedError(
            f"{folder} has {free / 1e9:.1f} GB free, {needed:.1f} GB are needed; TMPDIR names another folder"
        )


def tried(python: str, folder: Path) -> int:
    """Make the environment in ``folder`` and try the names in it; return their exit status.

    Raises:
        RefusedError: pip fails.
    """
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    own = str(folder / "bin" / "python")
    # What pip unpacks goes where the environment goes, and its cache keeps nothing of it.
    environment = {**os.environ, "TMPDIR": str(folder)}
    command = [own, "-m", "pip", "install", "--quiet", "--no-cache-dir", "-r", str(REQUIREMENTS)]
    done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise RefusedError("pip cannot install it: " + done.stderr[-1000:])
    print(f"installed: {_bytes_below(folder) / 1e9:.2f} GB", flush=True)
    return subprocess.run([own, "-m", "tests.gpu.names", "--cuda"], cwd=str(ROOT)).returncode


def _bytes_below(folder: Path) -> int:
    sizes: Dict[int, int] = {}
    for place, _, names in os.walk(str(folder)):
        for name in names:
            told = os.lstat(os.path.join(place, name))
            sizes[told.st_ino] = told.st_size
    return sum(sizes.values())


def main(arguments: List[str]) -> int:
    """Run the command line; return its exit status."""
    parser = argparse.ArgumentParser(prog="python3 -m tests.gpu.wheels", description=__doc__.splitlines()[0])
    parser.add_argument("versions", nargs="*", metavar="VERSION", help="of Python, in the order to try them")
    versions = parser.parse_args(arguments).versions or VERSIONS
    sizes = f"{DOWNLOAD_BYTES / 1e9:.1f} GB, {INSTALLED_BYTES / 1e9:.1f} GB on disk, removed afterwards"
    print(f"PyTorch's CUDA build: a download of {sizes}", flush=True)
    with tempfile.TemporaryDirectory(prefix="tbd-cuda-") as folder:
        try:
            check_room(Path(folder))
            python = chosen(versions)
            print(f"in an environment of {python}", flush=True)
            return tried(python, Path(folder) / "environment")
        except RefusedError as error:
            print(f"cuda-names: {error}", file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
