"""List who did what, newest first. It takes a token of scope admin. What was refused is in the server's log."""

import argparse

from orchestrator.cli.printing import output
from orchestrator.cli.rest.locate import look


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--who", metavar="OWNER", help="only what this owner did")
    parser.add_argument("--target", metavar="ID", help="only what was done to this experiment, run, node or token")
    parser.add_argument("--limit", type=int, default=50, help="most deeds to list (default 50)")
    parser.add_argument("--json", action="store_true", help="print REST's answer")


def execute(options: argparse.Namespace) -> int:
    page = look().pages("/audit", options.limit, who=options.who, target=options.target)
    if options.json:
        output.print_json(page)
        return 0
    from orchestrator.reports.drawing import table
    from orchestrator.reports.numbers import short_time

    rows = [
        [short_time(one["at"]), one["who"], one["action"], one["target"], one["token_id"] or "-", one["address"] or "-"]
        for one in page["items"]
    ]
    if rows:
        print(table.text(["at (UTC)", "who", "did", "to", "token", "from"], rows, output.width()))
    else:
        output.say("nothing was done yet")
    if page["next_cursor"]:
        output.say("there are more: --limit")
    return 0
