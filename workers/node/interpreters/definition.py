"""The definitions of interpreters, as they apply to this host.

Owns ``workers/interpreters/NAME`` (``interpreter.toml``, requirements, ``proof.py``), the choice of the variant, the
hash that names an environment, and where environments lie (``TBD_INTERPRETERS_DIR``, ``~/.cache/tbd/interpreters``).

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
from typing import Any, NamedTuple

from workers.node.interpreters import cuda_needs, system_parts
from workers.node.interpreters import sources as interpreter_sources
from workers.node.interpreters.sources import Source
from workers.node.interpreters.system_parts import SystemParts

DEFINITIONS = Path(__file__).resolve().parents[2] / "interpreters"


class InterpreterError(Exception):
    """An interpreter cannot be built or does not exist; the message says what to do."""


class Definition(NamedTuple):
    """A definition as it applies here: ``variant`` is ``cuda`` where there is an NVIDIA driver, else ``cpu``;
    ``TBD_INTERPRETER_VARIANT`` can say which."""

    name: str
    framework: str
    packages: list[str]  # those whose versions a person wants to see
    python: str
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

    @property
    def folder(self) -> Path:
        return base_folder() / (f"{self.name}-{self.hash}")

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
    if wanted and wanted not in ("cpu", "cuda"):
        raise InterpreterError(f"{cuda_needs.VARIANT_SETTING}={wanted}: it is cpu or cuda")
    return wanted or ("cuda" if has_nvidia_driver() else "cpu")


def definitions(root: Path = DEFINITIONS) -> dict[str, Definition]:
    """Return the definitions by name.

    Raises:
        InterpreterError: a definition cannot be read.
    """
    if not root.is_dir():
        return {}
    return {path.parent.name: _definition(path) for path in sorted(root.glob("*/interpreter.toml"))}


def _definition(path: Path) -> Definition:
    facts = _toml(path)
    variants = facts["variants"]
    variant = _wanted_variant() if "cuda" in variants else "cpu"
    chosen = variants[variant]
    requirements = path.parent / chosen["requirements"]
    proof, *proof_arguments = facts.get("proof", ["proof.py"])
    digest = hashlib.sha256()
    for part in (variant, facts["python"], platform.machine()):
        digest.update(part.encode() + b"\0")
    # What proves a GPU is no part of the environments that are used without one.
    more = [cuda_needs.PROOF] if variant == "cuda" else []
    for file in (path, requirements, path.parent / proof, *more):
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return Definition(
        facts["name"],
        facts["framework"],
        list(facts["packages"]),
        facts["python"],
        variant,
        requirements,
        path.parent / proof,
        proof_arguments,
        interpreter_sources.of_facts(facts, variant, requirements, [facts["python"], variant, platform.machine()]),
        {**facts.get("environment", {}), **chosen.get("environment", {})},
        system_parts.of_facts(facts),
        chosen["download_bytes"],
        chosen["installed_bytes"],
        digest.hexdigest()[:12],
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
