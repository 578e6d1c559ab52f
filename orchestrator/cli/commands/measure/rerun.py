"""Run the plan of a run once more, as a new experiment; --node says where."""

import argparse
import os
from typing import Any

from orchestrator.cli.commands.measure.submit import tell
from orchestrator.cli.rest import naming
from orchestrator.cli.rest.client import path_of
from orchestrator.cli.rest.locate import connect
from orchestrator.domain.asked.fields import REPEATED


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("--node", action="append", help="run it on this node (may be repeated)")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--wait", action="store_true", help="wait until it has ended and print the table")
    parser.add_argument("--json", action="store_true", help="print REST's answer")


def execute(options: argparse.Namespace) -> int:
    client = connect()
    spec = spec_of(client.get(path_of("runs", naming.run(client, options.run))), options.node, options.repeats)
    experiment = client.post("/experiments", spec, key=os.urandom(16).hex())
    return tell(client, experiment, options.wait, options.json)


def spec_of(run: dict[str, Any], nodes: list[str] | None, repeats: int) -> dict[str, Any]:
    """The spec of an experiment that repeats the plan of ``run``."""
    plan = run["plan"]
    given = [name for name in REPEATED if name in plan]  # some it has only where they are not the default
    return {name: plan[name] for name in given} | {
        "name": "rerun-" + run["id"].replace("_", "-"),
        "nodes": {
            "gpu_model": plan["gpu_model"],
            "names": nodes or plan["node_names"] or None,
            "devices": None if nodes else plan.get("device_ids") or None,
        },
        "repeats": repeats,
        "labels": {"rerun-of": run["id"]},
    }
