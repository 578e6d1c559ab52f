"""Whether this machine's driver and GPUs can carry the CUDA variant of an environment: asked before a download.

Owns the reading of ``workers/interpreters/cuda/needs.toml``, whose head has the sources.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Sequence, Tuple

FOLDER = Path(__file__).resolve().parents[2] / "interpreters" / "cuda"
PROOF = FOLDER / "proof.py"

VARIANT_SETTING = "TBD_INTERPRETER_VARIANT"

Version = Tuple[int, ...]


class Needs(NamedTuple):
    """``least`` and ``most`` are compute capabilities, both included; ``most`` is None where there is no end."""

    driver: str
    least: str
    most: str | None
    frameworks: list[str]


class Driver(NamedTuple):
    """What NVML says of this machine: ``gpus`` are (name, compute capability or None); ``reason``: why there are
    none."""

    version: str | None
    gpus: Sequence[tuple[str, str | None]]
    reason: str | None


def of(name: str) -> Needs | None:
    """Return what the CUDA variant of the environment ``name`` needs, None where nothing is said of it.

    Raises:
        ImportError: this Python is older than 3.11.
    """
    import tomllib

    facts = tomllib.loads((FOLDER / "needs.toml").read_text(encoding="utf-8")).get(name)
    if facts is None:
        return None
    least, *most = facts["capability"]
    return Needs(facts["driver"], least, most[0] if most else None, list(facts["frameworks"]))


def driver_here() -> Driver:
    """Return what NVML says of this machine."""
    from workers.node.telemetry.nvml import Nvml

    nvml = Nvml()
    try:
        gpus = [(gpu.name, nvml.settings(gpu.id).get("compute_capability")) for gpu in nvml.gpus()]
        return Driver(nvml.driver_version, gpus, nvml.reason)
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
    if driver.version is not None and version(driver.version) < version(needs.driver):
        return (
            f"its CUDA needs NVIDIA's driver {needs.driver} or newer, and this machine has {driver.version}: update it,"
            f" {otherwise}"
        )
    if any(capability is None or _has_code(needs, capability) for _, capability in driver.gpus):
        return None
    there = ", ".join(sorted({f"{name} (compute capability {capability})" for name, capability in driver.gpus}))
    span = f"from {needs.least} to {needs.most}" if needs.most else f"from {needs.least} on"
    return f"it has no code for {there}, only {span}: take another framework, {otherwise}"


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
