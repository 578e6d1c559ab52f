"""Compare two experiments or runs, cell by cell where the workload is the same: B against A."""

import argparse

from orchestrator.cli import output
from orchestrator.cli.exits import DONE, REGRESSION
from orchestrator.cli.locate import connect


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("baseline", metavar="A")
    parser.add_argument("candidate", metavar="B")
    parser.add_argument("--fail-on-regression", action="store_true", help="exit 3 where B is slower in any cell")
    parser.add_argument("--json", action="store_true", help="print REST's answer")


def execute(options: argparse.Namespace) -> int:
    comparison = connect().get("/compare", baseline=options.baseline, candidate=options.candidate)
    if options.json:
        output.print_json(comparison)
    else:
        from orchestrator.reports import table
        from orchestrator.reports.comparison import comparison_table

        found = comparison_table(comparison)
        if found.rows:
            print(table.text(found.headers, found.rows, output.width()))
        for note in found.notes:
            print(note)
    slower = any(item["verdict"] == "slower" for item in comparison["items"])
    return REGRESSION if slower and options.fail_on_regression else DONE
