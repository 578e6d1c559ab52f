"""Reads the facts files: models, frameworks and datasets of the tree, and more models from ``TBD_SUITE_PATH``."""

import dataclasses
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import suites.datasets
import suites.models
import workers.trainer.frameworks
from orchestrator.analysis.s_sgd.labels import Algorithm, Merger
from orchestrator.domain.asked.catalog import (
    Catalog,
    DatasetFacts,
    ExchangeFacts,
    FrameworkFacts,
    ModelFacts,
    OptionFacts,
    QualityFacts,
    StrategyFacts,
    SwitchFacts,
    Variant,
)
from orchestrator.domain.value.health import Fault, Xid
from orchestrator.domain.value.peaks import DataSheet
from orchestrator.domain.value.profile import KernelKinds, Kinds
from orchestrator.domain.words.errors import SettingsError
from orchestrator.services.facts import projects
from workers.trainer.protocol import MODEL_ROLES, OWN_SCRIPT

_MODELS = Path(suites.models.__path__[0])
_DATASETS = Path(suites.datasets.__path__[0])
_FRAMEWORKS = Path(workers.trainer.frameworks.__path__[0])
_PEAKS = _MODELS.parent / "device_peaks.toml"

# Judgement: more processes beside one rank are a mistake.
MOST_PER_RANK = 64
# Whether a quality is better when it is
BETTER = ("higher", "lower")


def load_catalog(suite_path: Sequence[Path] = ()) -> Catalog:
    """Read all facts.

    Args:
        suite_path: further folders, each with packages ``<model>/model.toml`` as in ``suites/models``.

    Raises:
        SettingsError: a facts file cannot be read or lacks a key; the message names it.
    """
    models = [_model(path, f"suites.models.{path.parent.name}") for path in sorted(_MODELS.glob("*/model.toml"))]
    for folder in suite_path:
        models += [_model(path, path.parent.name) for path in sorted(folder.glob("*/model.toml"))]
    frameworks = [_framework(path) for path in sorted(_FRAMEWORKS.glob("*/framework.toml"))] + [projects.FRAMEWORK]
    datasets = [_dataset(path) for path in sorted(_DATASETS.glob("*/dataset.toml"))]
    _tell_options_apart(models, frameworks)
    return Catalog(
        models={model.name: model for model in models},
        frameworks={framework.name: framework for framework in frameworks},
        datasets={dataset.name: dataset for dataset in datasets},
        data_sheets=_data_sheets(_PEAKS),
        kernel_kinds=_kernel_kinds(),
        xids=_xids(_MODELS.parent / "xids.toml"),
    )


def _tell_options_apart(models: Sequence[ModelFacts], frameworks: Sequence[FrameworkFacts]) -> None:
    """Options of models and of strategies and switches of frameworks stand side by side in a spec."""
    for model in models:
        for framework in frameworks:
            own = {option for strategy in framework.strategies.values() for option in strategy.options}
            if both := sorted(set(model.options) & (own | set(framework.switches))):
                message = f"model {model.name} calls an option as {framework.name} calls one of its own"
                raise SettingsError(f"{message}: {', '.join(both)}. Call it otherwise")


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{path}: {error}") from None


def _model(path: Path, module: str) -> ModelFacts:
    facts = _read(path)
    if "command" in facts:
        facts = projects.facts_of(path, facts)
    try:
        variants = facts.pop("variants", [])
        full = facts["sizes"].get("full", {})
        options = {name: _option(path, facts, name, option) for name, option in facts.get("options", {}).items()}
        return ModelFacts(
            name=facts["name"],
            module=module,
            domain=facts["domain"],
            frameworks=tuple(facts["frameworks"]),
            work_unit=facts["work_unit"],
            work_unit_definition=facts["work_unit_definition"],
            sizes=facts["sizes"],
            options=options,
            datasets=tuple(facts["datasets"]),
            facts=facts | {"module": module},
            parameters=full.get("parameters", facts.get("parameters")),
            layers=facts.get("layers"),
            flops_per_sample=full.get("flops_per_sample"),
            dominant_layer=facts.get("dominant_layer"),
            maintainers=tuple(facts.get("maintainers", ())),
            roles=_roles(path, facts.get("roles", {})),
            quality=_quality(path, facts.get("quality")),
            variants=tuple(_variant(path, facts, options, one) for one in variants),
        )
    except KeyError as error:
        raise SettingsError(f"{path} lacks {error}") from None


def _roles(path: Path, told: Mapping[str, Any]) -> dict[str, int]:
    for name, facts in told.items():
        table = f"{path}: [roles.{name}]"
        if name not in MODEL_ROLES:
            raise SettingsError(f"{table}: a model's own roles are: {', '.join(MODEL_ROLES)}")
        count = facts.get("per_rank") if isinstance(facts, dict) and set(facts) == {"per_rank"} else None
        if type(count) is not int or not 1 <= count <= MOST_PER_RANK:
            raise SettingsError(f"{table} has per_rank, a whole number from 1 to {MOST_PER_RANK}, and nothing else")
        if not (path.parent / f"{name}.py").exists():
            raise SettingsError(f"{table}: there is no {name}.py beside, whose serve(job, process) it would run")
    return {name: facts["per_rank"] for name, facts in told.items()}


def _option(path: Path, facts: Mapping[str, Any], name: str, option: Mapping[str, Any]) -> OptionFacts:
    for size in option.get("sizes", ()):
        if size not in facts["sizes"]:
            raise SettingsError(f"{path}: [options.{name}] names the size {size}, which the model has not")
    return OptionFacts(
        name=name,
        type=option["type"],
        default=option["default"],
        choices=tuple(option.get("choices", ())),
        minimum=option.get("minimum"),
        maximum=option.get("maximum"),
        help=option.get("help", ""),
        sizes=tuple(option.get("sizes", ())),
        later=option.get("later", False),
    )


def _quality(path: Path, told: Mapping[str, Any] | None) -> QualityFacts | None:
    if told is None:
        return None
    told = {"target": None} | dict(told)
    names = [one.name for one in dataclasses.fields(QualityFacts)]
    if sorted(told) != sorted(names):
        raise SettingsError(f"{path}: [quality] has {', '.join(names)}, and nothing else")
    target = told["target"]
    if told["better"] not in BETTER or isinstance(target, bool) or not isinstance(target, (int, float, type(None))):
        raise SettingsError(f"{path}: [quality]: target is a number, and better is one of {', '.join(BETTER)}")
    if target is not None and told["metric"].endswith("_ratio") and not 0 < target <= 1:
        raise SettingsError(f"{path}: [quality]: the target of {told['metric']} is above 0 and at most 1")
    return QualityFacts(**told)


def _variant(
    path: Path, facts: Mapping[str, Any], options: Mapping[str, OptionFacts], told: Mapping[str, Any]
) -> Variant:
    when = told["when"]
    table = f"{path}: [[variants]] of {when}"
    if not isinstance(when, dict) or not when:
        raise SettingsError(f"{table}: ``when`` is a table of options and their values")
    for name, value in when.items():
        if name not in options:
            raise SettingsError(f"{table}: the model has no option {name}")
        if problem := options[name].problem(value):
            raise SettingsError(f"{table}: {problem}")
    changed = {name: value for name, value in told.items() if name != "when"}
    for name, below, above in (("", facts, changed), ("sizes.", facts["sizes"], changed.get("sizes", {}))):
        if strange := sorted(set(above) - set(below)):
            raise SettingsError(f"{table} changes {name}{strange[0]}, which the model's facts do not have")
    if "quality" in changed:
        _quality(path, facts["quality"] | changed["quality"])
    return Variant(when, changed)


def _framework(path: Path) -> FrameworkFacts:
    facts = _read(path)
    try:
        return FrameworkFacts(
            name=facts["name"],
            devices=tuple(facts["devices"]),
            precisions=tuple(facts["precisions"]),
            abilities=tuple(facts.get("abilities", ())),
            strategies={name: _strategy(path, name, strategy) for name, strategy in facts["strategies"].items()},
            lacks={kind: tuple(abilities) for kind, abilities in facts.get("lacks", {}).items()},
            switches={name: _switch(name, switch, facts) for name, switch in facts.get("switches", {}).items()},
            data_on={kind: tuple(facts["data_on"][kind]) for kind in facts["devices"]},
            data_on_lacks=facts["data_on"].get("lacks", {}),
            precisions_not_with=facts.get("precisions_not_with", {}),
        )
    except (KeyError, TypeError) as error:
        raise SettingsError(f"{path}: {error}") from None


def _switch(name: str, facts: Mapping[str, Any], framework: Mapping[str, Any]) -> SwitchFacts:
    devices = tuple(facts.get("devices", framework["devices"]))
    return SwitchFacts(name, facts["help"], devices, tuple(facts.get("inputs", ())), dict(facts.get("not_with", {})))


def _strategy(path: Path, name: str, facts: Mapping[str, Any]) -> StrategyFacts:
    options = {option: _option(path, {"sizes": ()}, option, told) for option, told in facts.get("options", {}).items()}
    told = facts.get("exchange")
    made = {"lacks": tuple(facts.get("lacks", ())), "options": options, "exchange": told and ExchangeFacts(**told)}
    found = StrategyFacts(name=name, **{**facts, **made})
    choices = (
        ("workers", ("per-device", "per-node")),
        ("servers", ("none", "per-node")),
        ("launcher", ("none", "mpirun")),
        ("threads", ("per-process", "per-device")),
    )
    for field, offered in choices:
        if getattr(found, field) not in offered:
            raise TypeError(f"strategy {name}: {field} is one of {', '.join(offered)}")
    if found.exchange and found.exchange.merged_by not in (None, *Merger):
        raise TypeError(f"strategy {name}: exchange.merged_by is one of {', '.join(Merger)}")
    if found.exchange and not set(found.exchange.algorithms.values()) <= set(Algorithm):
        raise TypeError(f"strategy {name}: exchange.algorithms are of {', '.join(Algorithm)}")
    if found.exchange and found.exchange.merged_by and "bucket_mib" not in options:
        raise TypeError(f"strategy {name}: exchange.merged_by goes with an option bucket_mib")
    return found


def _dataset(path: Path) -> DatasetFacts:
    facts = _read(path)
    module = f"suites.datasets.{path.parent.name}"
    try:
        return DatasetFacts(facts["name"], module, facts["domain"], facts | {"module": module})
    except KeyError as error:
        raise SettingsError(f"{path} lacks {error}") from None


def _xids(path: Path) -> dict[int, Xid]:
    facts = _read(path)
    return {int(code): Xid(text, fault) for fault in Fault for code, text in facts[fault].items()}


def _kernel_kinds() -> KernelKinds:
    """They stand with each framework's facts, so that a framework is added there alone."""
    frameworks = {path.parent.name: _kinds(path) for path in sorted(_FRAMEWORKS.glob("*/framework.toml"))}
    frameworks[OWN_SCRIPT] = frameworks["pytorch"]  # of a script only PyTorch's kernels are seen
    return KernelKinds(_kinds(_FRAMEWORKS / "gpu.toml"), frameworks)


def _kinds(path: Path) -> Kinds:
    try:
        return [(entry["kind"], entry["names"]) for entry in _read(path).get("kernel_kinds", ())]
    except KeyError as error:
        raise SettingsError(f"{path}: a kind of kernels lacks {error}") from None


def _data_sheets(path: Path) -> tuple[DataSheet, ...]:
    try:
        return tuple(
            DataSheet(
                names=tuple(device["names"]),
                flops_per_s=device["flops_per_s"],
                fp32_per_clock=2 * device["cores"],
                boost_clock_hz=device["boost_clock_hz"],
                source=device["source"],
            )
            for device in _read(path)["device"]
        )
    except KeyError as error:
        raise SettingsError(f"{path}: a device lacks {error}") from None
