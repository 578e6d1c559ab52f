"""Whether this machine's driver and GPUs can carry the CUDA variant of an environment: asked before a download.

Owns the reading of ``workers/interpreters/cuda/needs.toml``, whose head has the sources.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Sequence, Tuple

FOLDER = Path(__file__).resolve().parents[2] / "interpreters" / "cuda"
PROOF = FOLDER / "proof.py"

VARIANT_SETTING = "TBD_INTERPRETER_VARIANT"

Version = Tuple[int, ...]


class Needs(NamedTuple):
    """``least`` and ``most`` are compute capabilities, both included; ``most`` is None where there is no end. A driver
    that is older than ``driver`` will do where its library carries ``cuda``."""

    driver: str
    least: str
    most: str | None
    frameworks: list[str]
    cuda: str | None = None


class Driver(NamedTuple):
    """What NVML says of this machine: ``gpus`` are (name, compute capability or None); ``reason``: why there are
    none; ``cuda``: the newest that its library carries, 13000 for 13.0."""

    version: str | None
    gpus: Sequence[tuple[str, str | None]]
    reason: str | None
    cuda: int | None = None


def facts_of(name: str, variant: str) -> dict[str, Any]:
    """Return what ``needs.toml`` says of a CUDA variant of the environment ``name``, nothing where it says nothing.

    Raises:
        ImportError: this Python is older than 3.11.
    """
    import tomllib

    facts = tomllib.loads((FOLDER / "needs.toml").read_text(encoding="utf-8")).get(name, {})
    return dict(facts if variant == "cuda" else facts.get(variant, {}))


def of(name: str, variant: str = "cuda") -> Needs | None:
    """Return what a CUDA variant of the environment ``name`` needs, None where nothing is said of it. Raises as
    ``facts_of``."""
    facts = facts_of(name, variant)
    if not facts:
        return None
    least, *most = facts["capability"]
    return Needs(facts["driver"], least, most[0] if most else None, list(facts["frameworks"]), facts.get("cuda"))


@lru_cache(maxsize=1)
def driver_here() -> Driver:
    """Return what NVML says of this machine, as of the first call: a driver is not changed while it is in use."""
    from workers.node.telemetry.nvml import Nvml

    nvml = Nvml()
    try:
        gpus = [(gpu.name, nvml.settings(gpu.id).get("compute_capability")) for gpu in nvml.gpus()]
        return Driver(nvml.driver_version, gpus, nvml.reason, nvml.cuda_version)
    finally:
        nvml.close()


def trouble(needs: Needs, driver: Driver) -> str | None:
    """Say why this machine cannot carry the CUDA variant, and what a person can do; None where it can.

    What the driver does not tell is no trouble: the proof takes a step on a GPU anyway.
    """
    otherwise = f"or set {VARIANT_SETTING}=cpu, for CPU devices only"
    if not driver.gpus:
        why = driver.reason or "it shows none"
        return f"NVIDIA's driver is here, but no GPU can be used ({why}): see `tbd doctor`, {otherwise}"
    if is_too_old(needs, driver):
        return (
            f"its CUDA needs NVIDIA's driver {needs.driver} or newer, and this machine has {driver.version}: update it,"
            f" {otherwise}"
        )
    known = {
        (name, capability) for name, capability in driver.gpus if capability is not None
    }  # not of one that is lost
    if not known or any(_has_code(needs, capability) for _, capability in known):
        return None
    there = ", ".join(sorted(f"{name} (compute capability {capability})" for name, capability in known))
    span = f"from {needs.least} to {needs.most}" if needs.most else f"from {needs.least} on"
    return f"it has no code for {there}, only {span}: take another framework, {otherwise}"


def unfit(name: str, driver: Driver) -> str | None:
    """Say why this machine can carry no CUDA variant of the environment ``name``, None where it can carry one."""
    told = [trouble(needs, driver) for variant in ("cuda", "cuda12") if (needs := of(name, variant)) is not None]
    return told[-1] if told and all(told) else None


def is_too_old(needs: Needs, driver: Driver) -> bool:
    """Whether the driver cannot carry the CUDA of an environment."""
    if driver.version is None or version(driver.version) >= version(needs.driver):
        return False
    if needs.cuda is None:
        return True
    major, minor = version(needs.cuda)
    return (driver.cuda or 0) < 1000 * major + 10 * minor


def _has_code(needs: Needs, capability: str) -> bool:
    own = version(capability)
    return version(needs.least) <= own and (needs.most is None or own <= version(needs.most))


def version(text: str) -> Version:
    """Return ``580.95.05`` as numbers that compare; what is no number ends it."""
    numbers = []
    for part in text.split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)
