"""Ask for an experiment or a run to end. Safe to repeat."""

import argparse

from orchestrator.cli import naming, output
from orchestrator.cli.client import path_of
from orchestrator.cli.locate import connect


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="EXPERIMENT|RUN")
    parser.add_argument("--json", action="store_true", help="print REST's answer")


def execute(options: argparse.Namespace) -> int:
    client = connect()
    identifier = naming.thing(client, options.id)
    kind = "runs" if identifier.startswith("run_") else "experiments"
    answer = client.post(path_of(kind, identifier, "cancel"))
    if options.json:
        output.print_json(answer)
    else:
        over = answer["ended_at"] is not None
        output.say(f"{identifier} has ended: {answer['state']}" if over else f"{identifier} is being cancelled")
    return 0
