"""Where the synthetic batches of a rank lie before a step copies them to its device: ``data_on`` of a spec."""

from collections.abc import Mapping
from typing import Any

from orchestrator.domain.asked.catalog import FrameworkFacts
from orchestrator.domain.asked.facts import Facts
from orchestrator.domain.expansion.refusals import device_of
from workers.trainer.protocol import DEVICE, HOST, usual_place

AUTO = "auto"


def resolved(place: str, device: str) -> str:
    """What ``place`` of a spec stands for. The memory of a CPU device is the host's."""
    if place == AUTO:
        return usual_place(device)
    return HOST if (place, device) == (DEVICE, "cpu") else place


def why_elsewhere(cell: Mapping[str, Any], facts: Facts) -> tuple[str, ...] | None:
    """(axis, reason, further axes) why the batches of a cell cannot lie where it wants them, or None."""
    framework, model = facts.catalog.frameworks[cell["framework"]], facts.catalog.models[cell["model"]]
    device = device_of(cell, facts)
    place = resolved(cell["data_on"], device)
    if place == usual_place(device):
        return None
    if cell["data"] != "synthetic":
        reason = f"data_on {place} is for synthetic data: where batches of {cell['data']} lie is its loader's choice"
        return "data_on", reason, "data"
    if "input" not in model.facts:
        return "data_on", f"data_on {place} is not offered for {model.name}, which makes its batches by itself"
    if place in framework.data_on.get(device, ()):
        return None
    return "data_on", _reason(place, framework, device), "device"


def _reason(place: str, framework: FrameworkFacts, device: str) -> str:
    if device == "cpu":
        return f"data_on {place} is for GPUs: page-locked memory is there to be copied from, and nothing is copied here"
    why = framework.data_on_lacks.get(place, f"it offers {', '.join(framework.data_on.get(device, ()))}")
    return f"{framework.name} has no data_on {place}: {why}"
