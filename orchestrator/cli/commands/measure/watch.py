"""Follow an experiment or a run until it has ended, and print its results. Ctrl-C detaches."""

import argparse

from orchestrator.cli.rest import naming
from orchestrator.cli.rest.locate import look
from orchestrator.cli.rest.waiting import wait_and_print, wait_for_run


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="EXPERIMENT|RUN")
    parser.add_argument(
        "--json", action="store_true", help="print REST's answer: the experiment or the run, as it ended"
    )


def execute(options: argparse.Namespace) -> int:
    client = look()
    identifier = naming.thing(client, options.id)
    follow = wait_for_run if identifier.startswith("run_") else wait_and_print
    return follow(client, identifier, options.json)
