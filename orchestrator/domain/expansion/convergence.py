"""Training to convergence: what a spec must say for it, and what can be trained so."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from orchestrator.domain.asked.catalog import Catalog, QualityFacts
from orchestrator.domain.asked.facts import Facts
from orchestrator.domain.asked.spec import LARGEST_THAT_FITS, ExperimentSpec
from orchestrator.domain.words.errors import Problem
from suites.inputs import EVALUATED
from suites.quality import BOUNDS, METRICS

CONVERGENCE = "convergence"
# Judgements: so many evaluations make a curve; and where steps are no budget, after so many steps comes one.
EVALUATIONS, STEPS_BETWEEN = 20, 100


def evaluate_every(spec: ExperimentSpec) -> int | None:
    """After how many steps an evaluation comes; None where nothing is evaluated."""
    if spec.mode != CONVERGENCE:
        return None
    if spec.evaluate_every is not None:
        return spec.evaluate_every
    return STEPS_BETWEEN if spec.max_steps is None else max(1, spec.max_steps // EVALUATIONS)


def problems_of(spec: ExperimentSpec, catalog: Catalog) -> Iterator[Problem]:
    """What contradicts itself in the fields of ``mode``, and targets that no model could reach."""
    if spec.mode != CONVERGENCE:
        for field in ("target", "evaluate_every", "max_epochs"):
            if getattr(spec, field) is not None:
                yield Problem(f"/{field}", f"{field} is for mode convergence: say mode: convergence, or leave it out")
        return
    if spec.max_steps is None and spec.max_epochs is None and spec.max_measure_s is None:
        message = "convergence needs a budget, for a target may never be reached: "
        message += "give max_steps, max_epochs or max_measure_s"
        yield Problem("/max_steps", message)
    if spec.max_steps is not None and spec.evaluate_every is not None and spec.evaluate_every > spec.max_steps:
        message = f"after {spec.evaluate_every} steps comes no evaluation in {spec.max_steps} steps"
        yield Problem("/evaluate_every", message)
    if LARGEST_THAT_FITS in (spec.per_device_batch_size or ()):
        yield Problem("/per_device_batch_size", "max is for mode throughput: give the batch that is to be trained with")
    if spec.precision_target is not None:
        yield Problem("/precision_target", "is of a throughput: with mode convergence give repeats")
    for model in (catalog.models[name] for name in spec.model if name in catalog.models):
        if spec.target is not None and model.quality is not None:
            yield from _wrong_target(spec.target, model.name, model.quality)


def _wrong_target(target: float, model: str, quality: QualityFacts) -> Iterator[Problem]:
    if quality.metric not in BOUNDS:
        return
    least, most = BOUNDS[quality.metric]
    if least < target < most or (target == most and quality.better == "higher"):
        return
    hint = f" Is {target / 100:g} meant?" if quality.metric.endswith("_ratio") and 1 < target <= 100 else ""
    reach = f"lies above {least:g}" if most == float("inf") else f"lies between {least:g} and {most:g}"
    message = f"{quality.metric} of {model} {reach}, and {quality.better} is better: {target:g} is no target.{hint}"
    yield Problem("/target", message)


def why_not_converging(cell: Mapping[str, Any], facts: Facts, spec: ExperimentSpec) -> tuple[str, ...] | None:
    """Why a cell cannot be trained to convergence, or None: axis, reason, axes that it is about too."""
    if spec.mode != CONVERGENCE:
        return None
    model, framework = facts.catalog.models[cell["model"]], facts.catalog.frameworks[cell["framework"]]
    if "evaluate" not in framework.abilities:
        return "framework", f"{framework.name} evaluates nothing: it has no mode convergence"
    own = model.facts_with(cell["options"])
    quality = own.get("quality")
    if quality is None:
        return "model", f"the facts of model {model.name} name no quality: it has no mode convergence"
    if quality["metric"] not in METRICS or own.get("input") not in EVALUATED:
        return "model", f"nothing here counts {quality['metric']} of model {model.name} yet: it has no mode convergence"
    if cell["data"] == "synthetic" and not own.get("learnable"):
        offered = _real(facts.datasets_of(model, cell["options"]))
        way = f"take data: {' or '.join(offered)}" if offered else "register a dataset (tbd datasets register)"
        return "data", f"synthetic data is random: nothing can be learnt from it that holds for other data; {way}"
    if cell["data"] == "synthetic" and spec.max_epochs is not None:
        return "data", "synthetic data has no epochs, for it never ends: give max_steps or max_measure_s"
    return None


def _real(names: Iterable[str]) -> list[str]:
    return [name for name in names if name != "synthetic"]
