"""Remove an experiment with all that hangs on it: runs, logs, measurements, profiles. It does not come back.

What is being carried out is cancelled first (tbd cancel). A row that tbd db check calls damaged goes the same way, and
so does an imported point (tbd import ls), by its id.
"""

import argparse
import re

from orchestrator.cli.printing import output
from orchestrator.cli.rest import naming
from orchestrator.cli.rest.client import Client, path_of
from orchestrator.cli.rest.locate import connect

_IMPORTED = re.compile(r"imp_[0-9a-f]{20}")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "ids",
        nargs="+",
        metavar="EXPERIMENT",
        help="id, how it begins, name, or latest; or the id of an imported point",
    )
    parser.add_argument("--json", action="store_true", help="print {removed: […]}")


def execute(options: argparse.Namespace) -> int:
    client = connect()
    # All are known before the first one goes: a wrong word removes nothing, and ``latest`` is not two of them.
    found = list(dict.fromkeys(_found(client, text) for text in options.ids))
    for identifier in found:
        client.delete(path_of("imports" if _IMPORTED.fullmatch(identifier) else "experiments", identifier))
        output.say(f"{identifier} was removed")
    if options.json:
        output.print_json({"removed": found})
    return 0


def _found(client: Client, text: str) -> str:
    return text if _IMPORTED.fullmatch(text) else naming.experiment(client, text)
