"""The definitions of interpreters, as they apply to this host.

Owns ``workers/interpreters/NAME`` (``interpreter.toml``, requirements, ``proof.py``), the choice of the variant, the
hash that names an environment, and where environments lie (``TBD_INTERPRETERS_DIR``, ``~/.cache/tbd/interpreters``).

The Python: ``interpreter.toml`` names the one that is preferred, ``workers/interpreters/pythons.toml`` those that will
do as well. What is built stays in use, whichever of them it has. What is not built yet is built with the first that the
host has (``workers.node.interpreters.install``). ``TBD_INTERPRETER_PYTHON`` can say which, where there is a choice.

In the values of ``[environment]``, to which a variant's own are added, ``{folder}`` stands for the environment's
folder. ``[system]`` and ``[links]`` are what an environment needs of the machine; see
``workers.node.interpreters.system_parts``.

``proof`` is the program that proves an environment, with its arguments; without it ``proof.py``. For ``[[source]]`` see
``workers.node.interpreters.sources``.
"""

from __future__ import annotations

import hashlib
import os
import platform
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Sequence

from workers.node.interpreters import cuda_needs, system_parts
from workers.node.interpreters import sources as interpreter_sources
from workers.node.interpreters.sources import Source
from workers.node.interpreters.system_parts import SystemParts

DEFINITIONS = Path(__file__).resolve().parents[2] / "interpreters"

# Written last: an environment without it is not built.
RECORD = "interpreter.json"

PYTHON_SETTING = "TBD_INTERPRETER_PYTHON"
CUDA_12 = "cuda12"


class InterpreterError(Exception):
    """An interpreter cannot be built or does not exist; the message says what to do."""


class Definition(NamedTuple):
    """A definition as it applies here: ``variant`` is ``cuda`` where there is an NVIDIA driver (``cuda12`` where that
    is older, and there is such a variant), else ``cpu``; ``TBD_INTERPRETER_VARIANT`` can say which. ``python`` is one
    of ``pythons``, those that will do, in order of preference; ``one_python`` says why there is but one, where that is
    known."""

    name: str
    framework: str
    packages: list[str]  # those whose versions a person wants to see
    python: str
    pythons: Sequence[str]
    one_python: str | None
    variant: str
    requirements: Path
    proof: Path
    proof_arguments: list[str]
    sources: list[Source]
    raw_environment: dict[str, str]
    system: SystemParts
    download_bytes: int
    installed_bytes: int
    hash: str
    path: Path  # of interpreter.toml

    @property
    def folder(self) -> Path:
        return base_folder() / (f"{self.name}-{self.hash}")

    @property
    def is_built(self) -> bool:
        return (self.folder / RECORD).is_file() and os.access(str(self.folder / "bin" / "python"), os.X_OK)

    def choices(self) -> list[Definition]:
        """The same for each Python that will do, in order of preference.

        Raises:
            InterpreterError: the definition cannot be read.
        """
        return [self if python == self.python else definition_at(self.path, python) for python in self.pythons]

    @property
    def environment(self) -> dict[str, str]:
        """What its processes need in their environment."""
        return {name: value.replace("{folder}", str(self.folder)) for name, value in self.raw_environment.items()}


def base_folder() -> Path:
    return Path(os.environ.get("TBD_INTERPRETERS_DIR") or os.path.expanduser("~/.cache/tbd/interpreters"))


def has_nvidia_driver() -> bool:
    return os.path.exists("/proc/driver/nvidia/version") or os.path.exists("/dev/nvidiactl")


def _wanted_variant() -> str:
    wanted = os.environ.get(cuda_needs.VARIANT_SETTING)
    if wanted and wanted not in ("cpu", "cuda", CUDA_12):
        raise InterpreterError(f"{cuda_needs.VARIANT_SETTING}={wanted}: it is cpu, cuda or {CUDA_12}")
    return wanted or ("cuda" if has_nvidia_driver() else "cpu")


def _variant(name: str, variants: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The variant of an environment that this host is to have, with what is said of it."""
    wanted = _wanted_variant()
    if wanted == "cpu" or "cuda" not in variants:
        return "cpu", variants["cpu"]
    older, newest = cuda_needs.facts_of(name, CUDA_12), cuda_needs.of(name)
    if not older or newest is None:
        wanted = "cuda"
    elif not os.environ.get(cuda_needs.VARIANT_SETTING):
        wanted = CUDA_12 if cuda_needs.is_too_old(newest, cuda_needs.driver_here()) else "cuda"
    return wanted, {**variants["cuda"], **cuda_needs.facts_of(name, wanted)}


def definitions(root: Path = DEFINITIONS) -> dict[str, Definition]:
    """Return the definitions by name: for the first Python for which the environment is built, else the first that
    will do.

    Raises:
        InterpreterError: a definition cannot be read.
    """
    if not root.is_dir():
        return {}
    first = [definition_at(path) for path in sorted(root.glob("*/interpreter.toml"))]
    return {one.name: next((choice for choice in one.choices() if choice.is_built), one) for one in first}


def _pythons(facts: Mapping[str, Any], further: Mapping[str, Any]) -> list[str]:
    """The Pythons of an ``interpreter.toml`` and of ``pythons.toml``, or the one that the setting names."""
    found = [facts["python"], *further.get(facts["name"], {}).get("pythons", ())]
    wanted = os.environ.get(PYTHON_SETTING)
    if not wanted or len(found) == 1:
        return found
    if wanted not in found:
        raise InterpreterError(f"{PYTHON_SETTING}={wanted}: {facts['name']} can be had for {', '.join(found)}")
    return [wanted]


def definition_at(path: Path, python: str | None = None) -> Definition:
    """Return the definition at ``path`` for ``python``, or for the first that will do.

    Raises:
        InterpreterError: it cannot be read.
    """
    facts = _toml(path)
    further_path = path.parent.parent / "pythons.toml"
    further = _toml(further_path) if further_path.is_file() else {}
    pythons = _pythons(facts, further)
    python = python or pythons[0]
    variants = facts["variants"]
    variant, chosen = _variant(facts["name"], variants)
    requirements = path.parent / chosen["requirements"]
    proof, *proof_arguments = facts.get("proof", ["proof.py"])
    digest = hashlib.sha256()
    for part in (variant, python, platform.machine()):
        digest.update(part.encode() + b"\0")
    # What proves a GPU is no part of the environments that are used without one.
    more = [cuda_needs.PROOF] if variant != "cpu" else []
    for file in (path, requirements, path.parent / proof, *more):
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return Definition(
        facts["name"],
        facts["framework"],
        list(facts["packages"]),
        python,
        pythons,
        further.get(facts["name"], {}).get("why"),
        variant,
        requirements,
        path.parent / proof,
        proof_arguments,
        interpreter_sources.of_facts(facts, variant, requirements, [python, variant, platform.machine()]),
        {**facts.get("environment", {}), **chosen.get("environment", {})},
        system_parts.of_facts(facts),
        chosen["download_bytes"],
        chosen["installed_bytes"],
        digest.hexdigest()[:12],
        path,
    )


def _toml(path: Path) -> dict[str, Any]:
    try:
        import tomllib
    except ImportError:
        raise InterpreterError(f"reading {path} needs Python 3.11 or newer") from None
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InterpreterError(f"{path}: {error}") from error
