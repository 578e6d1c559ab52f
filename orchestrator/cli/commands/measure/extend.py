"""Extend an experiment: values of axes, options or repeats beside those that it has. Only what is missing runs.

tbd extend EXPERIMENT --batch 16 --topology 2x1
tbd extend EXPERIMENT --repeats 12
tbd extend EXPERIMENT SPEC.yaml  (a spec that has everything the experiment has, and more)
"""

import argparse
from typing import Any

from orchestrator.cli.printing import output
from orchestrator.cli.rest import naming
from orchestrator.cli.rest.client import Client, path_of
from orchestrator.cli.rest.locate import connect
from orchestrator.cli.rest.waiting import ENDED
from orchestrator.cli.spec import spec_options


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="EXPERIMENT")
    parser.add_argument(
        "spec",
        metavar="SPEC.yaml",
        nargs="?",
        help="the whole spec. Without it: the experiment's own, with the options",
    )
    spec_options.configure_fields(parser)
    parser.add_argument("--json", action="store_true", help="print REST's answer")


def execute(options: argparse.Namespace) -> int:
    client = connect()
    identifier = naming.experiment(client, options.id)
    path = path_of("experiments", identifier)
    before = client.get(path)
    answer = _extend(client, path, before["spec"], options)
    if options.json:
        output.print_json(answer)
    else:
        more = sum(answer["run_counts"].values()) - sum(before["run_counts"].values())
        ahead = sum(count for state, count in answer["run_counts"].items() if state not in ENDED)
        output.say(f"{identifier} has {more} runs more, and {ahead} ahead. Follow them: tbd watch {identifier}")
    return 0


def _extend(client: Client, path: str, spec: dict[str, Any], options: argparse.Namespace) -> Any:
    if options.spec is not None:
        return spec_options.Source(options).post(client, path=f"{path}/extend")
    return client.post(f"{path}/extend", widened(spec, spec_options.given_fields(options)))


def widened(spec: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """``spec`` with the values of ``given`` beside its own on every axis that it has."""
    wider = spec | given
    for axis, values in given.items():
        if isinstance(values, list) and axis != "profile" and spec.get(axis) is not None:
            wider[axis] = _beside(spec[axis], values)
    if "nodes" in given:
        models = _beside(spec["nodes"]["gpu_model"], given["nodes"]["gpu_model"])
        wider["nodes"] = spec["nodes"] | {"gpu_model": models}
    options = given.get("options", {})
    own = spec["options"]
    wider["options"] = own | {name: _beside(own.get(name, []), values) for name, values in options.items()}
    if "repeats" in given and "max_repeats" not in given:  # as many replacements as a new spec would allow, or more
        wider["max_repeats"] = max(spec["max_repeats"], given["repeats"] + given["repeats"] // 2)
    return wider


def _beside(own: Any, more: Any) -> list[Any]:
    return list(dict.fromkeys([*_listed(own), *_listed(more)]))


def _listed(values: Any) -> list[Any]:
    return values if isinstance(values, list) else [values]
