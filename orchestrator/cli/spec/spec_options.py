"""A spec from a command line: ``tbd run resnet-50 -f pytorch -f mxnet --batch 4,8``, or from a file, or from both."""

import argparse
import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from orchestrator.cli.exits import CommandError
from orchestrator.cli.rest.client import Client, ServerProblem
from orchestrator.cli.spec.spec_file import SpecFile
from orchestrator.domain.asked.fields import BY_NAME, FIELDS, Option, in_order

Json = Mapping[str, Any]

# Field -> its option, as help lists them.
OPTIONS = {
    name: option
    for name in in_order(
        (field for field in FIELDS if field.option),
        "framework per_device_batch_size global_batch_size topology size data data_on precision device strategy "
        "interpreter fabric gpu_model options profile seed repeats precision_target min_measure_s max_measure_s "
        "device_time_budget_s timeout_s memory_limit_bytes exclusive max_repeats max_steps name labels",
    )
    if (option := BY_NAME[name].option)
}
DEFAULT_FRAMEWORK = "pytorch"
_DEFAULT_BATCH = [4]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "spec",
        metavar="SPEC.yaml|MODEL",
        help="a file (YAML or JSON; - is stdin), or a model. tbd plan --fields lists the fields of a file",
    )
    configure_fields(parser)


def configure_fields(parser: argparse.ArgumentParser) -> None:
    """The options that name fields of a spec."""
    group = parser.add_argument_group(
        "fields of the spec",
        "of a MODEL, or in place of those of the file; values may be repeated or separated by commas: each is an axis",
    )
    for name, option in OPTIONS.items():
        said = {"help": option.help, "metavar": option.metavar, "choices": option.choices, "type": option.value}
        given: dict[str, Any] = {key: value for key, value in said.items() if value is not None}
        group.add_argument(*option.flags, dest=name, action="store" if option.value else "append", **given)


class Source:
    """Where a spec came from: it explains the server's problems in its own terms."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._file = SpecFile(options.spec) if _is_file(options.spec) else None
        given = given_fields(options)  # what is wrong in itself is told before anybody is asked
        if self._file is not None:
            self._file.replace(given)

    def post(
        self, client: Client, key: str | None = None, path: str = "/experiments", **parameters: Any
    ) -> dict[str, Any]:
        """Submit the spec, or send it to another ``path``; REST's answer.

        Raises:
            CommandError: it is refused; of a file, the text has its lines.
        """
        spec = self.spec(lambda: client.get("/models"))
        try:
            return dict(client.post(path, spec, key=key or os.urandom(16).hex(), **parameters))
        except ServerProblem as problem:
            raise self.explain(problem) from None

    def spec(self, models: Callable[[], Json]) -> Any:
        """The spec. ``models`` answers as REST does; it is asked only where the framework is left open."""
        if self._file is not None:
            return self._file.spec
        default = DEFAULT_FRAMEWORK if self._options.framework else framework_for(self._options.spec, models())
        return spec_from(self._options, default)

    def check_here(self) -> None:
        """Without a server: refuse what none would accept.

        Raises:
            CommandError: it says what is wrong.
        """
        from orchestrator.cli.rest import offline
        from orchestrator.cli.rest.looking import LookingClient

        try:
            offline.check_spec(self.spec(lambda: LookingClient().get("/models")))
        except ServerProblem as problem:
            raise self.explain(problem) from None

    def explain(self, problem: ServerProblem) -> CommandError:
        return self._file.explain(problem) if self._file else problem


def _is_file(text: str) -> bool:
    return text == "-" or text.endswith((".yaml", ".yml", ".json")) or "/" in text or Path(text).is_file()


def framework_for(model: str, models: Json) -> str:
    """The framework that trains ``model`` where none is named: the usual one, if the model is there for it."""
    offered = next((one["frameworks"] for one in models["items"] if one["name"] == model), [DEFAULT_FRAMEWORK])
    return DEFAULT_FRAMEWORK if DEFAULT_FRAMEWORK in offered else str(offered[0])


def spec_from(options: argparse.Namespace, default_framework: str = DEFAULT_FRAMEWORK) -> dict[str, Any]:
    """The spec that the options describe.

    Raises:
        CommandError: a value has not the form it should have.
    """
    given = given_fields(options)
    frameworks = given.get("framework", [default_framework])
    spec = {"name": _name(options.spec, frameworks), "model": options.spec, "framework": frameworks} | given
    return spec if "global_batch_size" in given else {"per_device_batch_size": _DEFAULT_BATCH} | spec


def given_fields(options: argparse.Namespace) -> dict[str, Any]:
    """The fields of the spec that the options name.

    Raises:
        CommandError: a value has not the form it should have.
    """
    asked = {name: given for name in OPTIONS if (given := getattr(options, name)) is not None}
    spec = {name: _read(OPTIONS[name], given) for name, given in asked.items()}
    if "options" in asked:
        spec["options"] = _pairs(asked["options"], "--option", _scalars)
    if "labels" in asked:
        spec["labels"] = _pairs(asked["labels"], "--label", str)
    if "gpu_model" in asked:
        spec["nodes"] = {"gpu_model": spec.pop("gpu_model")}
    if "global_batch_size" in asked:
        spec.pop("per_device_batch_size", None)
    # An option with an empty word leaves the field as it is; there is no number that it could mean.
    return {name: value for name, value in spec.items() if value != [] or OPTIONS[name].has_numbers}


def _read(option: Option, given: Any) -> Any:
    if option.value:
        return given
    return [_scalar(text) if option.has_numbers else text for text in _values(given)]


def options_of(texts: list[str]) -> dict[str, Any]:
    """The options of a model that texts KEY=VALUE name, each with one value.

    Raises:
        CommandError: a text has no ``=``.
    """
    return _pairs(texts, "--option", _scalar)


def _values(texts: list[str] | None) -> list[str]:
    return [part.strip() for text in texts or [] for part in text.split(",") if part.strip()]


def _scalars(text: str) -> Any:
    values = [_scalar(part) for part in text.split(",")]
    return values[0] if len(values) == 1 else values


def _scalar(text: str) -> Any:
    """A number or a truth value where JSON has one; any other word, ``nan`` among them, is a text."""
    try:
        value = json.loads(text, parse_constant=str)
    except ValueError:
        return text
    return value if isinstance(value, (bool, int, float)) else text


def _pairs(texts: list[str], option: str, convert: Any) -> dict[str, Any]:
    pairs = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator:
            raise CommandError(f"{option} {text}: write KEY=VALUE")
        pairs[key] = convert(value)
    return pairs


def _name(model: str, frameworks: list[str]) -> str:
    return re.sub(r"[^a-z0-9-]+", "-", f"{model}-{'-'.join(frameworks)}".lower())[:100]
