"""List the models of the suite, or tell all facts of one: sizes, options, quality, optimiser, and their sources.

tbd models
tbd models resnet-50
"""

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.cli.exits import USAGE, CommandError
from orchestrator.cli.printing import output
from orchestrator.cli.rest.locate import look

Json = Mapping[str, Any]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", nargs="?", metavar="MODEL", help="one of them, with all its facts")
    parser.add_argument("--json", action="store_true", help="print REST's answer")


def execute(options: argparse.Namespace) -> int:
    page = look("these are the models of this installation").get("/models")
    if options.model is not None:
        found = _named(page["items"], options.model)
        output.print_json(found) if options.json else print("\n".join(_told(found)))
    elif options.json:
        output.print_json(page)
    else:
        print(_list(page["items"]))
    return 0


def _named(models: list[Any], name: str) -> Any:
    from orchestrator.domain.words.spelling import did_you_mean

    found = {model["name"]: model for model in models}
    if name not in found:
        offered = did_you_mean(name, found) or f": there are {', '.join(found)}"
        raise CommandError(f"there is no model {name!r}{offered}", USAGE)
    return found[name]


def _list(models: list[Any]) -> str:
    return _table(
        ["model", "domain", "frameworks", "sizes", "parameters", "GFLOP/sample", "data"],
        [
            [
                model["name"],
                model["domain"],
                ", ".join(model["frameworks"]),
                ", ".join(model["sizes"]),
                _count(model["parameters"]),
                _gflop(model["flops_per_sample"]),
                ", ".join(model["datasets"]),
            ]
            for model in models
        ],
    )


def _told(model: Json) -> Iterator[str]:
    """All facts of a model, line by line."""
    yield f"{model['name']}: {model['domain']}, in {', '.join(model['frameworks'])}"
    yield f"work: {model['work_unit']}: {model['work_unit_definition']}"
    yield f"layers: {model['layers']}, mostly {model['dominant_layer']}; data: {', '.join(model['datasets'])}"
    if model["paper"]:
        yield f"paper: {model['paper']}"
    for what, source in model["sources"].items():
        yield f"{what}: {source}"
    if quality := model["quality"]:
        target = "" if quality["target"] is None else f" {quality['target']:g}"
        told = f"{quality['metric']}{target} ({quality['better']} is better)"
        yield f"quality: {told}, {quality['dataset']}"
        yield f"  source: {quality['source']}"
        for one in model["variants"]:
            if other := one["facts"].get("quality"):
                yield f"  {_pairs(one['when'])}: {_pairs(other)}"
    rules = {name: rule for name, rule in model["optimizer"].items() if isinstance(rule, dict)}
    for name, rule in (rules or {"": model["optimizer"]}).items():
        yield f"optimizer{name and f' of the {name}'}: {_pairs(rule)}"
    for option in model["options"]:
        yield from _option(option)
    yield ""
    yield _table(["options", "size", "parameters", "layers", "GFLOP/sample", "of the size"], list(_sizes(model)))


def _option(option: Json) -> Iterator[str]:
    choices = ", ".join(map(_plain, option["choices"])) or option["type"]
    sizes = f"; at the sizes {', '.join(option['sizes'])}" if option["sizes"] else ""
    yield f"option {option['name']} (default {_plain(option['default'])}): {choices}{sizes}"
    if option["help"]:
        yield f"  {option['help']}"


# Told in columns of their own, or of no use to a reader beside them.
_FLOPS = ("flops_per_sample", "input_gradient_flops_per_sample", "step_flops_per_sample")
_COUNTS = ("parameters", "trainable_parameters", *_FLOPS)


def _sizes(model: Json) -> Iterator[list[str]]:
    """A row for each size, and one for each that values of options change: of these what they change."""
    for when, facts in [({}, {"sizes": model["sizes"]}), *((one["when"], one["facts"]) for one in model["variants"])]:
        for name, changed in facts.get("sizes", {}).items():
            told = (
                {"parameters": model["parameters"], "layers": model["layers"]} | facts | model["sizes"][name] | changed
            )
            layers = told["layers"] if name == "full" else None  # facts of full size, and tiny has fewer
            counts = [_count(told["parameters"]), _count(layers), _gflop(told.get("flops_per_sample"))]
            yield [_pairs(when), name, *counts, _pairs({key: changed[key] for key in changed if key not in _COUNTS})]


def _pairs(told: Json) -> str:
    return ", ".join(f"{name} {_plain(value)}" for name, value in told.items())


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _table(headings: list[str], rows: list[list[str]]) -> str:
    from orchestrator.reports.drawing import table

    return table.text(headings, rows, output.width())


def _gflop(flops: float | None) -> str:
    from orchestrator.reports.numbers import plain

    return plain(flops and flops / 1e9, 3)


def _count(number: int | None) -> str:
    return "–" if number is None else f"{number:,}"  # noqa: RUF001 - a dash on purpose
