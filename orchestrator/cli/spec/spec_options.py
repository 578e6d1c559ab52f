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

Json = Mapping[str, Any]

# Options that are named as their field of the spec.
_AXES = ("framework", "strategy", "interpreter", "topology", "fabric", "device", "precision", "data", "data_on", "size")
_SINGLE = (
    "name",
    "repeats",
    "max_repeats",
    "max_steps",
    "precision_target",
    "timeout_s",
    "min_measure_s",
    "max_measure_s",
    "device_time_budget_s",
    "memory_limit_bytes",
    "exclusive",
)
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
    group.add_argument("-f", "--framework", action="append", help="default pytorch, or what the model is there for")
    group.add_argument(
        "--batch", action="append", metavar="N", help="batch size per device (default 4); max: the largest that fits"
    )
    group.add_argument("--global-batch", action="append", metavar="N", help="batch size over all devices instead")
    group.add_argument("--topology", action="append", metavar="MxD", help="machines x devices (default 1x1)")
    group.add_argument("--size", action="append", help="full, small or tiny (default full)")
    group.add_argument("--data", action="append", help="synthetic, or a dataset's name (default synthetic)")
    group.add_argument("--data-on", action="append", help="auto, host, pinned or device: where synthetic batches lie")
    group.add_argument("--precision", action="append", help="default fp32")
    group.add_argument("--device", action="append", help="auto, cuda or cpu (default auto)")
    group.add_argument("--strategy", action="append", help="default auto")
    group.add_argument("--interpreter", action="append", help="default auto")
    group.add_argument("--fabric", action="append", help="ethernet, infiniband or roce (default ethernet)")
    group.add_argument("--gpu-model", action="append", metavar="NAME", help="GPUs whose name has this (default any)")
    group.add_argument("--option", action="append", metavar="KEY=VALUE", help="an option of the model")
    group.add_argument(
        "--profile", action="append", metavar="LIST", help="memory,kernels,layers: all of them in each run, no axis"
    )
    group.add_argument("--seed", action="append", metavar="N", help="of weights and data (default 1)")
    group.add_argument("--repeats", type=int)
    group.add_argument(
        "--precision-target",
        type=float,
        metavar="RATIO",
        help="half-width of the 95 %% interval to repeat for (0.01: 1 %%)",
    )
    seconds: dict[str, Any] = {"metavar": "SECONDS", "type": float}
    group.add_argument("--min-measure", dest="min_measure_s", **seconds, help="of timed steps of a run, at least")
    group.add_argument("--max-measure", dest="max_measure_s", **seconds, help="of timed steps of a run, at most")
    group.add_argument("--device-time-budget", dest="device_time_budget_s", **seconds, help="device-seconds of it all")
    group.add_argument("--timeout", dest="timeout_s", **seconds, help="of one attempt")
    group.add_argument("--memory-limit", dest="memory_limit_bytes", type=int, metavar="BYTES", help="of a CPU device")
    group.add_argument("--exclusive", choices=["node", "device"], help="of a run: its nodes (default), or its devices")
    group.add_argument("--max-repeats", type=int)
    group.add_argument("--max-steps", type=int)
    group.add_argument("--name", help="name of the experiment")
    group.add_argument("--label", action="append", metavar="KEY=VALUE")


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
    spec: dict[str, Any] = {name: values for name in _AXES if (values := _values(getattr(options, name)))}
    if options.global_batch:
        spec["global_batch_size"] = [_scalar(text) for text in _values(options.global_batch)]
    elif options.batch:
        spec["per_device_batch_size"] = [_scalar(text) for text in _values(options.batch)]
    if options.seed:
        spec["seed"] = [_scalar(text) for text in _values(options.seed)]
    if options.option:
        spec["options"] = _pairs(options.option, "--option", _scalars)
    if options.gpu_model:
        spec["nodes"] = {"gpu_model": _values(options.gpu_model)}
    if options.profile:
        spec["profile"] = _values(options.profile)
    if options.label:
        spec["labels"] = _pairs(options.label, "--label", str)
    return spec | {name: value for name in _SINGLE if (value := getattr(options, name)) is not None}


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
