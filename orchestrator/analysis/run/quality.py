"""How good a network became, and how long that took: from the evaluations in the log of a run to convergence."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.analysis.log.events import NodeLog
from orchestrator.domain.value.measurement import Measurement
from suites import quality
from workers.trainer import protocol

SCOPE = "this run only"
# Of a cell: one run that did not reach the target has no time, and a mean over the others would be that of the lucky.
CENSORED = "time_to_target_s", "time_to_target_elapsed_s"


@dataclass(frozen=True)
class Point:
    """One evaluation. ``trained_s``: seconds of training before it, without evaluations; ``elapsed_s``: with them."""

    step: int
    trained_s: float
    elapsed_s: float
    quality: float
    loss: float
    samples: int
    cost_s: float

    def to_json(self) -> dict[str, Any]:
        return {name: _finite(getattr(self, name)) for name in self.__dataclass_fields__}


def curve_of(logs: Sequence[NodeLog]) -> list[Point]:
    """The evaluations of a run in the order of its steps.

    Raises:
        ValueError, KeyError, TypeError: an evaluation has counted what cannot be, or steps do not rise.
    """
    found = [_point(data) for log in logs for _, data in log.of("evaluation")]
    if any(later.step <= before.step for before, later in itertools.pairwise(found)):
        raise ValueError("the evaluations of a run do not follow each other")
    return found


def _point(data: Mapping[str, Any]) -> Point:
    sums = {str(name): protocol.number(amount) for name, amount in data["sums"].items()}
    return Point(
        step=int(data["step"]),
        trained_s=protocol.number(data["trained_s"]),
        elapsed_s=protocol.number(data["elapsed_s"]),
        quality=quality.value(str(data["metric"]), sums),
        loss=protocol.number(data["loss"]),
        samples=int(data["samples"]),
        cost_s=protocol.number(data["cost_s"]),
    )


def measurements(logs: Sequence[NodeLog]) -> list[Measurement]:
    """The best and the last quality, and the time to the target if there was one; none where nothing was evaluated."""
    job = logs[0].job
    if job["plan"].get("mode") != "convergence":
        return []
    facts, curve = job["model"].get("quality") or {}, curve_of(logs)
    if not curve:
        return []
    named = ", ".join(filter(None, (facts["metric"], quality.DETAILS.get(facts["metric"]))))
    method = f"{named}, counted on {curve[-1].samples} samples that are not trained on"
    resumed = resumed_of(logs)
    best = best_of(curve, facts["better"])
    found = [
        _measured("quality_best", best.quality, "1", f"{method}, the best of {len(curve)} evaluations"),
        _measured("quality_final", curve[-1].quality, "1", f"{method}, after the last step"),
        _measured("evaluation_s", math.fsum(point.cost_s for point in curve), "s", "all evaluations of the run"),
    ]
    target = job["plan"].get("target")
    return found if target is None else [*found, *_times(curve, best, float(target), facts, resumed)]


def resumed_of(logs: Sequence[NodeLog]) -> dict[str, Any] | None:
    """Where the attempt went on from another one's checkpoint: step, attempt_id, lost_s; None where it began anew."""
    for data in (data for log in logs for _, data in log.of("resumed")):
        if int(data["step"]):
            lost_s = protocol.number(data["lost_s"])
            return {"step": int(data["step"]), "attempt_id": data["attempt_id"], "lost_s": lost_s}
    return None


def _times(
    curve: Sequence[Point],
    best: Point,
    target: float,
    facts: Mapping[str, Any],
    resumed: Mapping[str, Any] | None,
) -> list[Measurement]:
    first = next((point for point in curve if quality.reaches(point.quality, target, facts["better"])), None)
    method = f"to the first evaluation with {facts['metric']} of {target:g} or better"
    if resumed:
        method += f"; resumed at step {resumed['step']}: {resumed['lost_s']:.3g} s since that checkpoint not counted"
    told = (
        ("time_to_target_s", "trained_s", "of training, evaluations not counted"),
        ("time_to_target_elapsed_s", "elapsed_s", "from the first step on, earlier evaluations among them"),
    )
    reason = None if first else short_of(best, target, facts, curve[-1].step)
    return [
        _measured(metric, getattr(first, field) if first else None, "s", f"{what}, {method}", reason)
        for metric, field, what in told
    ]


def short_of(best: Point, target: float, facts: Mapping[str, Any], steps: int) -> str:
    """That a target was not reached, and by how much."""
    away = abs(target - best.quality)
    return (
        f"the target of {target:g} was not reached in {steps} steps: the best {facts['metric']} was "
        f"{best.quality:.4g}, {away:.2g} short of it"
    )


def best_of(curve: Sequence[Point], better: str) -> Point:
    """The best point; one whose quality is no number is worse than any."""
    sign = 1.0 if better == "higher" else -1.0
    return max(curve, key=lambda point: sign * point.quality if math.isfinite(point.quality) else -math.inf)


def summary(logs: Sequence[NodeLog]) -> dict[str, Any]:
    """What of a run to convergence is kept beside its measurements: the curve, and what it is a curve of."""
    job = logs[0].job
    if job["plan"].get("mode") != "convergence":
        return {}
    facts = job["model"].get("quality") or {}
    told = {"metric": facts.get("metric"), "better": facts.get("better"), "target": job["plan"].get("target")}
    curve = [point.to_json() for point in curve_of(logs)]
    return {"convergence": told | {"curve": curve, "resumed": resumed_of(logs)} | _epochs(logs)}


def _epochs(logs: Sequence[NodeLog]) -> dict[str, Any]:
    """Of a budget in epochs: how many samples one has, and how many steps the budget was."""
    for data in (data for log in logs for _, data in log.of("epoch")):
        budget = {"samples": int(data["samples"]), "max_steps": int(data["max_steps"])}
        return {"epochs": budget | {"max_epochs": logs[0].job["plan"].get("max_epochs")}}
    return {}


def _measured(metric: str, value: float | None, unit: str, method: str, reason: str | None = None) -> Measurement:
    known = value if value is None or math.isfinite(value) else None
    why = reason or (None if known is not None else "it is not finite")
    return Measurement(metric=metric, value=known, unit=unit, method=method, scope=SCOPE, reason=why)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
