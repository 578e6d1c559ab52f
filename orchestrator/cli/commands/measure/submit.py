"""Submit an experiment to the server, and wait for it with --wait.

tbd submit suites/quick.yaml --data synthetic
tbd submit resnet-50 -f pytorch --batch 4,8 --wait
"""

import argparse
from typing import Any

from orchestrator.cli.printing import output
from orchestrator.cli.rest.client import Client
from orchestrator.cli.rest.locate import connect
from orchestrator.cli.spec import spec_options


def configure(parser: argparse.ArgumentParser) -> None:
    spec_options.configure(parser)
    parser.add_argument("--wait", action="store_true", help="wait until it has ended and print the table")
    parser.add_argument("--key", help="idempotency key: the same key and spec are carried out once, however often sent")
    parser.add_argument(
        "--json", action="store_true", help="print REST's answer (with --wait: the experiment as it ended)"
    )


def execute(options: argparse.Namespace) -> int:
    client = connect()
    experiment = spec_options.Source(options).post(client, options.key)
    return tell(client, experiment, options.wait, options.json)


def tell(client: Client, experiment: dict[str, Any], wait: bool, as_json: bool) -> int:
    """Print the id of a new experiment, before anything else; wait for its end where that is wanted."""
    if not as_json:
        print(experiment["id"], flush=True)
    how = "Ctrl-C detaches; come back with" if wait else "Follow them"
    output.say(f"{sum(experiment['run_counts'].values())} runs. {how}: tbd watch {experiment['id']}")
    if wait:
        from orchestrator.cli.rest.waiting import wait_and_print

        return wait_and_print(client, experiment["id"], as_json)
    if as_json:
        output.print_json(experiment)
    return 0
