"""Packages that an environment needs and no registry has as a wheel: built from source once, the wheel kept.

Owns the table ``[[source]]`` of ``interpreter.toml`` and the folder ``wheels`` beside the environments. A wheel lies
under the hash of everything that decides what the compiler sees, so that the next build of the environment, or a pin
that the source is not compiled against, takes the wheel that is there.

A source's keys: ``requirement`` (pinned), ``variant`` (only this one; without it all), ``against`` (the pinned packages
that it is compiled against), ``build_requirements`` (pinned; found by the build only), ``programs`` and ``packages``
(what the build needs of the machine, and Debian's names of what holds it), ``python_headers`` (whether it needs those
of the Python too), ``cxx_standard`` (at least this one, whatever the package asks for), ``minutes`` (about how long it
takes), ``environment`` and ``replace`` (tables {file, old, new}: corrections of the source, whose ``old`` must be there
once), ``path`` (folders that the build looks for programs in before those on PATH), ``links`` (made among the build's
requirements: {path there: what it leads to}), ``cuda`` ({release, how}: the toolkit that the machine must have, and how
to get it).

In the values of ``environment``, ``path`` and ``links``, ``{tools}`` stands for the folder of the build's requirements,
``{packages}`` for that of the environment's packages, and ``{cuda}`` for that of the machine's CUDA toolkit.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from workers.node.interpreters import cuda_toolkits

# Stands where a package's build looks for the compiler. Some builds write the standard behind whatever flags they are
# given, so that no flag can raise it.
_COMPILER = """#!/bin/bash
arguments=()
for argument in "$@"; do
  case "$argument" in {lower}) argument=-std=c++{standard} ;; esac
  arguments+=("$argument")
done
exec {compiler} "${{arguments[@]}}"
"""
_STANDARDS = ("98", "03", "0x", "11", "1y", "14", "1z", "17", "2a", "20", "2b", "23")


class Source(NamedTuple):
    """One package to build; ``pins`` are the lines of the requirements that it is compiled against."""

    requirement: str
    pins: Sequence[str]
    build_requirements: Sequence[str]
    programs: Sequence[str]
    packages: Sequence[str]
    python_headers: bool
    cxx_standard: int | None
    minutes: float
    environment: Mapping[str, str]
    replace: Sequence[Mapping[str, str]]
    path: Sequence[str]
    links: Mapping[str, str]
    cuda: Mapping[str, str] | None
    key: str

    @property
    def name(self) -> str:
        return self.requirement.partition("==")[0]


# Runs a command with additions to its environment.
Run = Callable[[str, Sequence[str], Mapping[str, str]], object]


def of_facts(facts: Mapping[str, Any], variant: str, requirements: Path, host: Sequence[str]) -> list[Source]:
    """Return the sources that an ``interpreter.toml`` names for ``variant``.

    ``host`` tells apart what a wheel is not shared between, such as the version of Python and the machine.

    Raises:
        KeyError: a source is compiled against a package that is not pinned.
        OSError: the requirements cannot be read.
    """
    chosen = [table for table in facts.get("source", ()) if table.get("variant", variant) == variant]
    pinned = {canonical(line.partition("==")[0]): line for line in requirements.read_text().split()} if chosen else {}
    return [_source(table, [pinned[canonical(name)] for name in table["against"]], host) for table in chosen]


def _source(table: Mapping[str, Any], pins: Sequence[str], host: Sequence[str]) -> Source:
    inputs = {name: table.get(name) for name in ("requirement", "build_requirements", "cxx_standard", "environment")}
    # Absent from the key where they are absent from the table: wheels outlive the invention of keys.
    inputs.update({name: table[name] for name in ("replace", "path", "links") if name in table})
    if "cuda" in table:
        inputs["cuda"] = table["cuda"]["release"]
    text = json.dumps([inputs, sorted(pins), list(host)], sort_keys=True)
    return Source(
        table["requirement"],
        pins,
        table["build_requirements"],
        table["programs"],
        table["packages"],
        table.get("python_headers", False),
        table.get("cxx_standard"),
        table["minutes"],
        table.get("environment", {}),
        table.get("replace", ()),
        table.get("path", ()),
        table.get("links", {}),
        table.get("cuda"),
        hashlib.sha256(text.encode()).hexdigest()[:12],
    )


def canonical(name: str) -> str:
    """A package's name as indices compare it (PEP 503, "Normalized Names")."""
    return re.sub(r"[-_.]+", "-", name).lower()


def kept(source: Source, cache: Path) -> Path | None:
    """Return the wheel of ``source`` in ``cache``, or None where it has not been built yet."""
    return next(iter(sorted((cache / f"{source.name}-{source.key}").glob("*.whl"))), None)


def missing(sources: Sequence[Source], cache: Path, python: str) -> str | None:
    """Say what the machine lacks for building those of ``sources`` that are not in ``cache``, or return None."""
    needed = [source for source in sources if kept(source, cache) is None]
    lacking = [name for source in needed for name in source.programs if shutil.which(name) is None]
    if any(source.python_headers for source in needed) and not _has_headers(python):
        lacking.append(f"Python.h of {python}")
    toolkits = [s.cuda for s in needed if s.cuda is not None and cuda_toolkits.find(s.cuda["release"]) is None]
    advice = []
    if lacking:
        packages = " ".join(sorted({name for source in needed for name in source.packages}))
        advice.append(f"`apt-get install {packages}` (Debian and Ubuntu) brings what the build needs")
    advice += [toolkit["how"] for toolkit in toolkits]
    lacking += [f"nvcc of CUDA {toolkit['release']}" for toolkit in toolkits]
    return f"{', '.join(lacking)} missing: {'; '.join(advice)}" if lacking else None


def _has_headers(python: str) -> bool:
    command = [python, "-Ic", "import sysconfig; print(sysconfig.get_path('include'))"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    return (Path(done.stdout.strip()) / "Python.h").is_file()


def build(source: Source, python: str, cache: Path, run: Run) -> Path:
    """Build ``source`` with the environment of ``python``, in which its pins are installed; return the kept wheel.

    Raises:
        OSError: the disk cannot be written.
        ValueError: what is to be replaced is not in the source.
        whatever ``run`` raises: the build fails.
    """
    pip = [python, "-m", "pip", "--no-input", "--disable-pip-version-check"]
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=str(cache), prefix=".building-") as name:
        scratch = Path(name)
        tools = str(scratch / "tools")
        if source.build_requirements:
            install = [*pip, "install", "--target", tools, "--no-warn-script-location", *source.build_requirements]
            run(f"installing what builds {source.name}", install, {})
        places = _places(source, python, tools)
        _link(source, tools, places)
        environment = _build_environment(source, scratch, places)
        options = ["--use-pep517", "--no-deps", "--no-build-isolation", "--no-cache-dir", "--no-binary", source.name]
        what = source.requirement
        if source.replace:
            fetch = [*pip, "download", *options, "--dest", str(scratch / "archive"), source.requirement]
            run(f"fetching {source.requirement}", fetch, environment)
            what = str(corrected(next(iter((scratch / "archive").iterdir())), scratch / "source", source.replace))
        wheel = [*pip, "wheel", *options, "--wheel-dir", str(scratch / "wheels"), what]
        run(f"building {source.requirement}", wheel, environment)
        _keep(scratch / "wheels", cache / f"{source.name}-{source.key}")
    found = kept(source, cache)
    assert found is not None
    return found


def corrected(archive: Path, folder: Path, replace: Sequence[Mapping[str, str]]) -> Path:
    """Unpack a source archive into ``folder`` and correct it; return the folder of the package.

    Raises:
        ValueError: a file does not hold what is to be replaced exactly once.
        OSError, tarfile.TarError: it cannot be unpacked.
    """
    with tarfile.open(str(archive)) as packed:
        packed.extractall(str(folder))  # what pip has fetched by its pinned name, and would run as well
    (package,) = folder.iterdir()
    for change in replace:
        path = package / change["file"]
        text = path.read_text(encoding="utf-8")
        if text.count(change["old"]) != 1:
            raise ValueError(f"{change['file']} of {archive.name} does not hold once what is to be replaced")
        path.write_text(text.replace(change["old"], change["new"]), encoding="utf-8")
    return package


def _places(source: Source, python: str, tools: str) -> dict[str, str]:
    """Return what the placeholders in a source's values stand for."""
    places = {"{tools}": tools}
    command = [python, "-Ic", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    asked = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    places["{packages}"] = asked.stdout.strip()
    toolkit = cuda_toolkits.find(source.cuda["release"]) if source.cuda is not None else None
    if toolkit is not None:
        places["{cuda}"] = str(toolkit)
    return places


def _filled(value: str, places: Mapping[str, str]) -> str:
    for placeholder, folder in places.items():
        value = value.replace(placeholder, folder)
    return value


def _link(source: Source, tools: str, places: Mapping[str, str]) -> None:
    for name, target in source.links.items():
        path = Path(tools) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(_filled(target, places))
        if not path.exists():
            raise FileNotFoundError(f"{path} leads to {os.readlink(str(path))}, which is not there")


def _build_environment(source: Source, scratch: Path, places: Mapping[str, str]) -> dict[str, str]:
    tools = places["{tools}"]
    folders = [_filled(folder, places) for folder in source.path]
    # A toolkit's folder may be /usr, with other releases of the pinned tools.
    path = os.pathsep.join([os.path.join(tools, "bin"), *folders, os.environ.get("PATH", os.defpath)])
    environment = {"PYTHONPATH": tools, "PATH": path, "TMPDIR": str(scratch), "MAKEFLAGS": f"-j{_cores()}"}
    if source.cxx_standard is not None:
        environment["CXX"] = str(compiler(scratch / "c++", source.cxx_standard))
    environment.update({name: _filled(value, places) for name, value in source.environment.items()})
    return environment


def compiler(path: Path, standard: int) -> Path:
    """Write a script to ``path`` that is g++ told a standard of ``standard`` at least; return the path."""
    lower = _STANDARDS[: _STANDARDS.index(str(standard))]
    patterns = "|".join(f"-std={kind}++{name}" for kind in ("c", "gnu") for name in lower)
    path.write_text(_COMPILER.format(lower=patterns, standard=standard, compiler=shutil.which("g++")))
    path.chmod(0o755)
    return path


def _keep(built: Path, folder: Path) -> None:
    try:
        os.replace(str(built), str(folder))
    except OSError:
        # Another definition with the same inputs was quicker.
        if not any(folder.glob("*.whl")):
            raise


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
