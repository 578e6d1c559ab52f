"""Ask for an experiment or a run to end. Safe to repeat."""

import argparse

from orchestrator.cli import output
from orchestrator.cli.client import path_of
from orchestrator.cli.locate import connect


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="EXPERIMENT|RUN")
    parser.add_argument("--json", action="store_true", help="print REST's answer")


def execute(options: argparse.Namespace) -> int:
    kind = "runs" if options.id.startswith("run_") else "experiments"
    answer = connect().post(path_of(kind, options.id, "cancel"))
    if options.json:
        output.print_json(answer)
    else:
        over = answer["ended_at"] is not None
        output.say(f"{options.id} has ended: {answer['state']}" if over else f"{options.id} is being cancelled")
    return 0
