"""Getting the build for CPUs of a package that registries also have with CUDA, and never the latter unasked.

Owns the reading of ``workers/interpreters/cpu/builds.toml``, and what is asked of indexes before a download:

1. ``TBD_PYTORCH_CPU_INDEX``, alone: has it the pinned version in a build for CPUs, for this Python?
2. The indexes that pip is configured with: have they a build that calls itself ``+cpu``?
3. Else nobody knows what their build is before pip looks into it. So pip is told to install it, and is ended at the
   first line that shows CUDA: a package of CUDA that it collects, a version that names it, or the size of the wheel.
   (``pip install --dry-run`` would not do: that of pip 23 downloads all that it would install.)

``TBD_ALLOW_CUDA_BUILD=1`` is a person's consent to the build with CUDA on a host without a GPU.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Iterable, Mapping, NamedTuple, Sequence
from urllib.parse import unquote, urlsplit

from workers.node.interpreters.room import size

BUILDS = Path(__file__).resolve().parents[2] / "interpreters" / "cpu" / "builds.toml"

INDEX_SETTING = "TBD_PYTORCH_CPU_INDEX"
CONSENT_SETTING = "TBD_ALLOW_CUDA_BUILD"
NO_INDEX = "none"

# Judgements: an index that answers at all begins within 5 s, and has said which versions it has within 20.
_BEGIN_S = "5"
_LIMIT_S = 20.0

# How pip finds and reaches an index, by the names of its options. The first ones are left out where one index is asked
# alone, the others are kept from pip's configuration.
_WHERE = ("index-url", "extra-index-url", "find-links", "no-index", "constraint")
_HOW = ("cert", "client-cert", "proxy", "trusted-host", "cache-dir", "no-cache-dir", "timeout", "retries")

_CUDA_PACKAGES = ("nvidia-", "cuda-", "triton", "pytorch-triton")
_TELLING = re.compile(r"(?:Collecting|Processing|Downloading|Using cached) (\S+)(?: .*?\((\d+(?:\.\d+)?) ([kM]?)B\))?")
_FACTORS = {"": 1.0, "k": 1e3, "M": 1e6}


class CpuBuild(NamedTuple):
    """A package with two builds; sizes in bytes, those of ``cuda`` of the whole environment."""

    package: str
    cpu_index: str
    most_bytes: int
    cuda_download_bytes: int
    cuda_installed_bytes: int

    def with_cuda(self) -> str:
        """How large the other one is, for a person."""
        return f"is {size(self.cuda_download_bytes)} to download and {size(self.cuda_installed_bytes)} on disk"


class Place(NamedTuple):
    """Where a build for CPUs is: ``requirement`` names it exactly, ``options`` and ``environment`` are pip's."""

    requirement: str
    where: str
    options: Sequence[str]
    environment: Mapping[str, str]


def of(name: str) -> CpuBuild | None:
    """Return what there is to know of the environment ``name``, None where there is no choice of builds.

    Raises:
        ImportError: this Python is older than 3.11.
    """
    import tomllib

    facts = tomllib.loads(BUILDS.read_text(encoding="utf-8")).get(name)
    if facts is None:
        return None
    return CpuBuild(**{**facts, "cpu_index": os.environ.get(INDEX_SETTING) or facts["cpu_index"]})


def is_consented() -> bool:
    return os.environ.get(CONSENT_SETTING, "") not in ("", "0")


def pinned(build: CpuBuild, requirements: Path) -> str:
    """Return the version of the package in ``requirements``."""
    pins = dict(line.partition("==")[::2] for line in requirements.read_text().split())
    return pins[build.package]


def find(build: CpuBuild, version: str, pip: Sequence[str], python: str) -> tuple[list[Place], list[str]]:
    """Return where builds for CPUs of ``version`` are, and of the other indexes why not, for a person.

    Args:
        pip: the command of the environment's pip.
        python: the version of its Python, for a person.
    """
    places, reasons = [], []
    what = f"{build.package} {version} for Python {python}"
    if build.cpu_index == NO_INDEX:
        reasons.append(f"{INDEX_SETTING} is {NO_INDEX}")
    else:
        options = ["--index-url", build.cpu_index]
        alone = _alone(pip)
        offered, why = _versions(build.package, [*pip, "-vv"], options, alone)
        found = next((one for one in (f"{version}+cpu", version) if one in offered), None)
        if found:
            places.append(Place(f"{build.package}=={found}", build.cpu_index, options, alone))
        else:
            reasons.append(f"{build.cpu_index} ({INDEX_SETTING}) {why or f'has no {what}'}")
    offered, _ = _versions(build.package, [*pip, "-vv"], [], {})
    if f"{version}+cpu" in offered:
        places.append(Place(f"{build.package}=={version}+cpu", "pip's indexes", [], {}))
    else:
        reasons.append(f"pip's indexes have no {build.package} {version}+cpu for Python {python}")
    return places, reasons


def _versions(
    package: str, pip: Sequence[str], options: Sequence[str], extra: Mapping[str, str]
) -> tuple[list[str], str | None]:
    """Return the versions that an index has for this Python, or none and why it cannot be asked."""
    command = [*pip, "index", "versions", package, "--timeout", _BEGIN_S, "--retries", "0", *options]
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            timeout=_LIMIT_S,
            env={**os.environ, **extra},
            check=False,
        )
    except subprocess.TimeoutExpired:
        return [], f"has not answered within {_LIMIT_S:g} s"
    listed = re.search(r"^Available versions: (.*)$", done.stdout, re.MULTILINE)
    if listed:
        return listed.group(1).split(", "), None
    failed = re.search(r"^.*Could not fetch URL \S+: (.*?)(?: - skipping)?$", done.stdout, re.MULTILINE)
    return [], f"cannot be read: {_cause(failed.group(1))}" if failed else None


def _cause(told: str) -> str:
    """The last of what pip says of a failed request: the others tell through which of its parts it came."""
    return re.split(r": |, '", told)[-1].strip("'\")( ") if "Caused by" in told else told


def _alone(pip: Sequence[str]) -> dict[str, str]:
    """Return what keeps pip to the index that it is told: no other one, the same certificates and proxies."""
    told = subprocess.run(
        [*pip, "config", "list"], capture_output=True, text=True, timeout=_LIMIT_S, check=False
    ).stdout
    options = {}
    for line in told.splitlines():
        name, _, value = line.partition("=")
        _, _, option = name.rpartition(".")
        if option in _HOW:
            options[_variable(option)] = value.strip("'\"")
    return {**options, **{_variable(option): "" for option in _WHERE}, "PIP_CONFIG_FILE": os.devnull}


def _variable(option: str) -> str:
    return "PIP_" + option.replace("-", "_").upper()


def refusal(build: CpuBuild, version: str, python: str, shown: str, reasons: Sequence[str] = ()) -> str:
    """Say why a build is not taken, and what a person can do."""
    told = "; ".join(reasons)
    return (
        f"for Python {python} pip's indexes have {build.package} {version} with CUDA ({shown}), which"
        f" {build.with_cuda()}.{' ' + told + '.' if told else ''} Name an index that has it for CPUs"
        f" ({INDEX_SETTING}=URL), take a Python for which there is one, or take the build with CUDA:"
        f" {CONSENT_SETTING}=1 (it computes on CPU devices too)"
    )


def cuda_in_line(build: CpuBuild, line: str) -> str | None:
    """Return what a line of ``pip install`` shows of CUDA, for a person; None where it shows nothing of it."""
    told = _TELLING.match(line.strip())
    if told is None:
        return None
    file = unquote(urlsplit(told.group(1)).path.rpartition("/")[2] or told.group(1))
    shown = _cuda_in_name(build, file)
    if shown is None and told.group(2) and file.startswith(f"{build.package}-"):
        size = float(told.group(2)) * _FACTORS[told.group(3)]
        return f"{file} has {size / 1e6:.0f} MB" if size > build.most_bytes else None
    return shown


def cuda_in_packages(build: CpuBuild, packages: Iterable[str]) -> str | None:
    """Return the first of installed ``packages`` (``name==version``) that is CUDA's, for a person, or None."""
    return next((shown for shown in (_cuda_in_name(build, one) for one in packages) if shown), None)


def _cuda_in_name(build: CpuBuild, text: str) -> str | None:
    name = re.sub(r"[-_.]+", "-", text).lower()
    if name.startswith(_CUDA_PACKAGES):
        return f"it comes with {text}"
    if name.startswith(build.package) and re.search(r"\+(cu\d|cuda|rocm|xpu)", text):
        return f"it is {text}"
    return None
