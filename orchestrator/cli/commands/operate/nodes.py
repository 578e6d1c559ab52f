"""List the nodes; or drain (no new runs), quarantine (results not believed) or resume one."""

import argparse
from typing import Any

from orchestrator.cli.exits import CommandError
from orchestrator.cli.printing import output
from orchestrator.cli.rest.client import path_of
from orchestrator.cli.rest.locate import connect


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("order", nargs="?", choices=["drain", "resume", "quarantine"])
    parser.add_argument("node", nargs="?", metavar="NODE")
    parser.add_argument("--json", action="store_true", help="print REST's answer")


def execute(options: argparse.Namespace) -> int:
    client = connect()
    if options.order is None:
        answer = client.get("/nodes")
        nodes = answer["items"]
    else:
        if options.node is None:
            raise CommandError(f"which node? tbd nodes {options.order} NODE")
        answer = client.post(path_of("nodes", options.node, options.order))
        nodes = [answer]
    if options.json:
        output.print_json(answer)
    else:
        _print(nodes)
    return 0


def _print(nodes: list[dict[str, Any]]) -> None:
    from orchestrator.reports.drawing import table
    from orchestrator.reports.tables.lists import nodes_table

    found = nodes_table(nodes)
    print(table.text(found.headers, found.rows, output.width()))
    for note in found.notes:
        print(note)
