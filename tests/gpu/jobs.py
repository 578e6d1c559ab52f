"""Jobs for ``python -m workers.node`` on a host that has nothing but Python, PyTorch and NVIDIA's driver.

The same jobs that the orchestrator would write, from the same facts files; the interpreter is the one that runs this.
"""

import sys
from pathlib import Path
from typing import Any, Dict, Optional

from workers.trainer import protocol

ROOT = Path(__file__).resolve().parents[2]


def toml(path: Path) -> Dict[str, Any]:
    """Read a facts file; Python before 3.11 has a parser only inside of pip.

    Raises:
        ImportError: there is none at all.
    """
    try:
        import tomllib as parser
    except ImportError:
        from pip._vendor import tomli as parser  # type: ignore[no-redef]
    return dict(parser.loads(path.read_text(encoding="utf-8")))


def sheet(device_name: str) -> Optional[Dict[str, Any]]:
    """The vendor's facts of a device, by what the driver calls it."""

    def plain(name: str) -> str:
        name = name.casefold()
        return (name[len("nvidia") :] if name.startswith("nvidia") else name).strip()

    for device in toml(ROOT / "suites" / "device_peaks.toml")["device"]:
        if plain(device_name) in map(plain, device["names"]):
            return dict(device)
    return None


def job(model: str, device: Dict[str, Any], name: str, **changes: Any) -> Dict[str, Any]:
    """A job of one rank on ``device`` (as in the inventory).

    Args:
        model: the folder of its facts.
        name: of the run, for a person.
        changes: of the plan: options, size, per_device_batch_size, profile …; and of the job: seconds (how long the
            timed phase is), sample_s.
    """
    seconds, sample_s = changes.pop("seconds", None), changes.pop("sample_s", 0.5)
    plan = plan_of(model, device, **{"max_steps": 1_000_000 if seconds else 1000, **changes})
    facts = toml(ROOT / "suites" / "models" / model / "model.toml")
    worker = {"name": "worker0", "role": "worker", "node": "here", "ranks": [0], "local_ranks": [0]}
    return {
        "protocol": protocol.PROTOCOL_VERSION,
        "attempt_id": f"gpu-check-{name}",
        "run_id": f"gpu-check-{name}",
        "token": f"gpu-check-{name}",
        "plan": plan,
        "model": {**facts, "module": f"suites.models.{model}"},
        "dataset": None,
        "interpreter": {"name": "system", "definition": None, "python": sys.executable, "environment": {}},
        "strategy": {"name": "single"},
        "processes": [{**worker, "devices": [device]}],
        "world_size": 1,
        "control": {"host": "127.0.0.1", "port": None},
        "stopping": {
            "max_steps": plan["max_steps"],
            "intervals": None if seconds else 100,
            "max_duration_s": seconds,
        },
        "interval_s": 0.2 if device["kind"] == "cuda" else 0.0,
        "sample_s": sample_s,
        "peaks": [peak_of(device, plan["precision"])],
    }


def plan_of(model: str, device: Dict[str, Any], **changes: Any) -> Dict[str, Any]:
    """A plan of one rank in PyTorch; ``changes`` override its fields."""
    plan = {
        "model": model.replace("_", "-"),
        "options": {},
        "framework": "pytorch",
        "strategy": "single",
        "interpreter": "system",
        "topology": "1x1",
        "fabric": None,
        "device": device["kind"],
        "precision": "fp32",
        "per_device_batch_size": 1,
        "data": "synthetic",
        "size": "full",
        "seed": 1,
        "mode": "throughput",
        "profile": [],
        "timeout_s": 470.0,
        "repetition": 1,
        **changes,
    }
    return {**plan, "global_batch_size": plan["per_device_batch_size"]}


def peak_of(device: Dict[str, Any], precision: str) -> Dict[str, Any]:
    """What the vendor promises of ``device`` in that arithmetic, as a job has it among its ``peaks``."""
    vendor = sheet(device["name"])
    arithmetic = precision[len("amp-") :] if precision.startswith("amp-") else precision
    peak = (vendor or {}).get("flops_per_s", {}).get(arithmetic)
    return {
        "node": "here",
        "device": device["id"],
        "arithmetic": arithmetic,
        "data_sheet": {"flops_per_s": peak, "source": vendor["source"]} if vendor and peak else None,
        "calibrated": None,
    }
