"""What an environment needs of the machine beyond a Python: programs, and libraries under names of their own.

Owns the tables ``[system]`` and ``[links]`` of ``interpreter.toml``: ``packages`` are Debian's names of what holds the
``programs`` and the libraries; a link is made in the environment's folder, so that the whole of it is found through one
entry of ``LD_LIBRARY_PATH`` which only the environment's own processes have.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Sequence

_LDCONFIG = "/sbin/ldconfig"

_ASK_FOLDER = "import sysconfig; print(sysconfig.get_config_var('LIBDIR') or '')"


class SystemParts(NamedTuple):
    """``links`` are {path in the environment's folder: name of a library}."""

    packages: Sequence[str]
    programs: Sequence[str]
    links: Mapping[str, str]


def of_facts(facts: Mapping[str, Any]) -> SystemParts:
    """Return the parts that an ``interpreter.toml`` names."""
    system = facts.get("system", {})
    return SystemParts(system.get("packages", []), system.get("programs", []), facts.get("links", {}))


def missing(parts: SystemParts, python: str) -> list[str]:
    """Return what of ``parts`` is not here, for an environment that is made from ``python``."""
    programs = [name for name in parts.programs if shutil.which(name) is None]
    return programs + [name for name in parts.links.values() if find_library(name, python) is None]


def lost(parts: SystemParts, folder: Path) -> list[str]:
    """Return what a built environment has lost since: programs, and libraries that its links led to. Cheap."""
    programs = [name for name in parts.programs if shutil.which(name) is None]
    return programs + [library for link, library in parts.links.items() if not (folder / link).exists()]


def how_to_get(parts: SystemParts, names: Sequence[str], python: str) -> str:
    """Say what a person can do where ``names`` are missing."""
    own = [name for name in names if name.startswith("libpython")]
    advice = []
    if own:
        advice.append(f"{python} comes without {own[0]}: take one that was configured with --enable-shared")
        advice.append("(`PYTHON_CONFIGURE_OPTS=--enable-shared pyenv install VERSION`)")
    if len(own) < len(names):
        advice.append("`apt-get install {}` (Debian and Ubuntu) brings it".format(" ".join(parts.packages)))
    return "{} missing: {}".format(", ".join(names), " ".join(advice))


def make_links(parts: SystemParts, folder: Path, python: str) -> None:
    """Make the links of ``parts`` in the environment ``folder``; call it when nothing is ``missing``.

    Raises:
        OSError: the disk cannot be written.
    """
    for link, library in parts.links.items():
        target = find_library(library, python)
        assert target is not None
        (folder / link).parent.mkdir(parents=True, exist_ok=True)
        (folder / link).symlink_to(target)


def find_library(name: str, python: str) -> str | None:
    """Return the path of the library ``name``: where ``python`` keeps its own, else where the dynamic linker looks."""
    done = _output([python, "-c", _ASK_FOLDER]).strip()
    if done and os.path.exists(os.path.join(done, name)):
        return os.path.join(done, name)
    for line in _output([_LDCONFIG, "-p"]).splitlines():
        known, _, path = line.partition(" => ")
        if known.split(" ")[0].strip() == name:
            return path.strip()
    return None


def _output(command: Sequence[str]) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30, env=environment, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
