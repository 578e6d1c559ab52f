"""What ``tbd parity`` computes: with which frameworks, and each process's job (``workers.trainer.loops.parity``)."""

import secrets
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from orchestrator.analysis.probe.parity import TOLERANCES
from orchestrator.domain.asked.catalog import Catalog, ModelFacts
from orchestrator.domain.words.errors import InvalidRequest, Problem
from orchestrator.domain.words.spelling import did_you_mean
from workers.trainer.protocol import PROTOCOL_VERSION, local_node

# The framework that also computes in double precision: its result is the exact one.
REFERENCE = "pytorch"
# A phase takes seconds; the size full on two cores takes minutes.
TIMEOUT_S = 1800.0
# No option is other than its default.
DEFAULTS: Mapping[str, Any] = MappingProxyType({})


def model_of(catalog: Catalog, name: str) -> ModelFacts:
    """The model of that name, if its networks can be compared.

    Raises:
        InvalidRequest: there is no such model, it is not made from described layers, or it is not there in PyTorch.
    """
    model = catalog.models.get(name)
    if model is None:
        raise _refused(f"there is no model {name!r}{did_you_mean(name, catalog.models) or _known(catalog)}")
    if "input" not in model.facts:
        raise _refused(f"{name} is not made from described layers: its frameworks have nothing to be compared by")
    if REFERENCE not in model.frameworks:
        raise _refused(f"{name} is not there in {REFERENCE}, whose double precision is what others are compared with")
    return model


def _known(catalog: Catalog) -> str:
    return ": there are " + ", ".join(sorted(name for name, one in catalog.models.items() if "input" in one.facts))


def frameworks_of(model: ModelFacts, asked: Sequence[str]) -> list[str]:
    """The frameworks asked for, all of the model's where none is.

    Raises:
        InvalidRequest: the model is not there in one of them.
    """
    for name in asked:
        if name not in model.frameworks:
            hint = did_you_mean(name, model.frameworks)
            why = model.facts.get("not_in", {}).get(name)
            told = f"{model.name} is in {', '.join(model.frameworks)}, not in {name}"
            raise _refused(f"{told}: {why}" if why else f"{told}{hint}")
    return list(asked or model.frameworks)


def size_of(model: ModelFacts, name: str, options: Mapping[str, Any] = DEFAULTS) -> Mapping[str, Any]:
    """The size of that name, with ``options``.

    Raises:
        InvalidRequest: the model has no such size or option.
    """
    if name not in model.sizes:
        hint = did_you_mean(name, model.sizes)
        raise _refused(f"{model.name} has the sizes {', '.join(model.sizes)}, not {name}{hint}")
    for option, value in options.items():
        if option not in model.options:
            has = f"the options {', '.join(model.options)}" if model.options else "no options"
            raise _refused(f"{model.name} has {has}, not {option}{did_you_mean(option, model.options)}")
        known = model.options[option]
        if problem := known.problem(value) or known.problem_at(value, name):
            raise _refused(problem)
    found: Mapping[str, Any] = model.facts_with(options)["sizes"][name]
    return found


def why_not_in(catalog: Catalog, framework: str, precision: str, model: str) -> str | None:
    """Why a framework does not compute a model in this precision here, or None.

    Raises:
        InvalidRequest: no tolerance is stated for the precision.
    """
    if precision not in TOLERANCES:
        raise _refused(f"networks are compared in {', '.join(TOLERANCES)}, not in {precision}")
    facts = catalog.frameworks[framework]
    offered = facts.precisions_on("cpu")
    if precision not in offered:
        return f"on CPU devices it computes in {', '.join(offered)}, not in {precision}"
    return facts.why_not_precise(precision, "cpu", model)


def _refused(text: str) -> InvalidRequest:
    return InvalidRequest([Problem("", text)])


def job(
    model: ModelFacts,
    framework: str,
    size: Mapping[str, Any],
    batch: int,
    seed: int,
    cores: Sequence[int],
    options: Mapping[str, Any] = DEFAULTS,
    precision: str = "fp32",
) -> dict[str, Any]:
    """The job of one process on a CPU device of ``cores``, but for what a host adds: ports, and where files lie.

    It locks nothing: a training that begins meanwhile goes on, and is disturbed for some seconds. Nothing is dropped at
    random: what a size has of ``dropout``, or of another one such as ``auxiliary_dropout``, is 0.
    """
    table = {key: 0.0 if key.endswith("dropout") else value for key, value in size.items()}
    device = {"id": "cpu:parity", "kind": "cpu", "name": "cpu", "cores": list(cores), "memory_bytes": 0}
    process = {"name": "worker0", "role": "worker", "node": "here", "ranks": [0], "local_ranks": [0]}
    plan = {
        "framework": framework,
        "strategy": "single",
        "topology": "1x1",
        "device": "cpu",
        "precision": precision,
        "per_device_batch_size": batch,
        "data": "synthetic",
        "size": "compared",
        "seed": seed,
        "options": dict(options),
        "timeout_s": TIMEOUT_S,
    }
    return {
        "protocol": PROTOCOL_VERSION,
        "attempt_id": "parity",
        "run_id": "parity",
        "token": secrets.token_hex(16),
        "plan": plan,
        "model": {**model.facts_with(options), "sizes": {"compared": table}},
        "dataset": None,
        "interpreter": {"name": framework, "definition": None, "python": None, "environment": {}},
        "processes": [process | {"devices": [device]}],
        "nodes": [local_node("here")],
        "world_size": 1,
        "control": {"host": "127.0.0.1", "port": None},
        "stopping": {},
        "interval_s": 0.0,
        "sample_s": 1.0,
        "lock_dir": None,
    }


def exactly(found: dict[str, Any]) -> dict[str, Any]:
    """The job in double precision, whose process also makes the case."""
    return found | {"plan": found["plan"] | {"precision": "fp64"}}
