"""List the registered datasets (synthetic data needs none)."""

import argparse

from orchestrator.cli import output
from orchestrator.cli.locate import connect


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print REST's answer")


def execute(options: argparse.Namespace) -> int:
    page = connect().get("/datasets")
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
