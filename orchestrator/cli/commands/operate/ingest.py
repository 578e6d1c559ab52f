"""Import the log of a job that ran without the service, as a run."""

import argparse
from pathlib import Path

from orchestrator.cli.exits import CommandError
from orchestrator.cli.printing import output
from orchestrator.cli.rest.locate import connect


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("log", metavar="OUT.jsonl")
    parser.add_argument("--json", action="store_true", help="print REST's answer")


def execute(options: argparse.Namespace) -> int:
    try:
        content = Path(options.log).read_bytes()
    except OSError as error:
        raise CommandError(f"{options.log}: {error.strerror}") from None
    run = connect().post("/ingest", raw=content)
    if options.json:
        output.print_json(run)
    else:
        from orchestrator.cli.rest.waiting import outcome

        print(run["id"])
        output.say(f"{outcome(run)}. See: tbd show {run['id']}")
    return 0
