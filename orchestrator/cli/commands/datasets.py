"""List the registered datasets (synthetic data needs none)."""

import argparse
from typing import Any

from orchestrator.cli import output
from orchestrator.cli.locate import client_of, find_server


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print REST's answer")


def execute(options: argparse.Namespace) -> int:
    page = _page()
    if options.json:
        output.print_json(page)
        return 0
    from orchestrator.reports import table
    from orchestrator.reports.numbers import memory

    rows = [
        [one["name"], one["domain"], str(one["files"] or ""), memory(one["bytes"]), one["description"] or ""]
        for one in page["items"]
    ]
    print(table.text(["dataset", "domain", "files", "size", "what it is"], rows, output.width()))
    return 0


def _page() -> Any:
    """As the server has it; where there is none, what comes with tbd here."""
    url = find_server()
    if url is not None:
        return client_of(url).get("/datasets")
    from orchestrator.cli import here

    output.say("no server: these are the datasets of this installation")
    return here.datasets()
