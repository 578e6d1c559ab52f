"""Say why a run of several devices takes as long as it does: from one device to what was measured, part by part.

The parts add up; each has a 95 % interval over the runs of its cell. With OTHER, a run of the same cell in another
framework, also by which parts that differs. What is not told is named, with the command that would supply it.
"""

import argparse

from orchestrator.cli.exits import CommandError
from orchestrator.cli.printing import output
from orchestrator.cli.rest import naming
from orchestrator.cli.rest.client import Client, path_of
from orchestrator.cli.rest.locate import look
from orchestrator.reports.tables.results_table import run_that_counts


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run, or an experiment with one cell of several devices")
    parser.add_argument("other", metavar="OTHER", nargs="?", help="the same of another framework or strategy")
    parser.add_argument("--json", action="store_true", help="print REST's answer")


def execute(options: argparse.Namespace) -> int:
    client = look()
    other = {"other": _run(client, options.other)} if options.other else {}
    found = client.get(path_of("runs", _run(client, options.run), "waterfall"), **other)
    if options.json:
        output.print_json(found)
        return 0
    from orchestrator.reports.tables import waterfall

    print(waterfall.text(found))
    if found["other"]:
        print()
        print(waterfall.difference_text(found))
    return 0


def _run(client: Client, text: str) -> str:
    """The id of a run: of an experiment, one of its only cell of several devices that its numbers rest on."""
    thing = naming.thing(client, text)
    if thing.startswith("run_"):
        return thing
    rows = client.pages(path_of("experiments", thing, "results"))["items"]
    several = [row for row in rows if row["axes"]["topology"] != "1x1"]
    if len(several) == 1:
        return run_that_counts(several[0])
    first = [row["run_ids"][0] for row in several]
    some = f": which? {', '.join(first[: naming.MOST_TOLD])} (tbd show)" if first else ""
    raise CommandError(f"{text} has {len(several) or 'no'} cells of several devices{some}")
