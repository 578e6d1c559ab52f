"""Commands that order something of an experiment or a run that is there, and say what came of it."""

import argparse

from orchestrator.cli.printing import output
from orchestrator.cli.rest import naming
from orchestrator.cli.rest.client import path_of
from orchestrator.cli.rest.locate import connect


def configure(parser: argparse.ArgumentParser, what: str = "EXPERIMENT") -> None:
    parser.add_argument("id", metavar=what)
    parser.add_argument("--json", action="store_true", help="print REST's answer")


def carry_out(options: argparse.Namespace, order: str, done: str) -> int:
    """POST ``order`` to the experiment. ``done`` is what is said of it then: "exp_… DONE".

    Raises:
        CommandError: there is no such experiment, or the server refuses.
    """
    client = connect()
    identifier = naming.thing(client, options.id) if order == "cancel" else naming.experiment(client, options.id)
    kind = "runs" if identifier.startswith("run_") else "experiments"
    answer = client.post(path_of(kind, identifier, order))
    if options.json:
        output.print_json(answer)
    else:
        over = answer["ended_at"] is not None
        output.say(f"{identifier} has ended: {answer['state']}" if over else f"{identifier} {done}")
    return 0
