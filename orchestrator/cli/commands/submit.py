"""Submit an experiment (YAML or JSON; - is stdin) to the server, and wait for it with --wait."""

import argparse
import os
from typing import Any

from orchestrator.cli import output
from orchestrator.cli.client import Client, ServerProblem
from orchestrator.cli.locate import connect
from orchestrator.cli.spec_file import SpecFile


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("spec", metavar="SPEC.yaml", help="tbd plan --fields lists its fields")
    parser.add_argument("--wait", action="store_true", help="wait until it has ended and print the table")
    parser.add_argument("--key", help="idempotency key: the same key and spec are carried out once, however often sent")
    parser.add_argument(
        "--json", action="store_true", help="print REST's answer (with --wait: the experiment as it ended)"
    )


def execute(options: argparse.Namespace) -> int:
    client = connect()
    experiment = post_spec(client, SpecFile(options.spec), options.key)
    return tell(client, experiment, options.wait, options.json)


def tell(client: Client, experiment: dict[str, Any], wait: bool, as_json: bool) -> int:
    """Print the id of a new experiment, before anything else; wait for its end where that is wanted."""
    if not as_json:
        print(experiment["id"], flush=True)
    how = "Ctrl-C detaches; come back with" if wait else "Follow them"
    output.say(f"{sum(experiment['run_counts'].values())} runs. {how}: tbd watch {experiment['id']}")
    if wait:
        from orchestrator.cli.waiting import wait_and_print

        return wait_and_print(client, experiment["id"], as_json)
    if as_json:
        output.print_json(experiment)
    return 0


def post_spec(client: Client, file: SpecFile, key: str | None = None) -> dict[str, Any]:
    """Submit the spec of a file; the experiment.

    Raises:
        CommandError: it is refused; the text has the lines of the file.
    """
    try:
        return dict(client.post("/experiments", file.spec, key=key or os.urandom(16).hex()))
    except ServerProblem as problem:
        raise file.explain(problem) from None
