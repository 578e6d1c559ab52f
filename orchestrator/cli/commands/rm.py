"""Remove an experiment with all that hangs on it: runs, logs, measurements, profiles. It does not come back.

What is being carried out is cancelled first (tbd cancel). A row that tbd db check calls damaged goes the same way.
"""

import argparse

from orchestrator.cli import output
from orchestrator.cli.client import path_of
from orchestrator.cli.locate import connect


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="+", metavar="EXPERIMENT", help="its whole id: what is removed is not guessed")
    parser.add_argument("--json", action="store_true", help="print {removed: […]}")


def execute(options: argparse.Namespace) -> int:
    client = connect()
    for identifier in options.ids:
        client.delete(path_of("experiments", identifier))
        output.say(f"{identifier} was removed")
    if options.json:
        output.print_json({"removed": options.ids})
    return 0
