"""List experiments, newest first."""

import argparse
from typing import Any

from orchestrator.cli.printing import output
from orchestrator.cli.rest.locate import look


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--state", choices=["active", "completed", "failed", "cancelled"])
    parser.add_argument("--name", help="only experiments of this name")
    parser.add_argument("--owner", help="only experiments of this owner")
    parser.add_argument("--label", metavar="KEY=VALUE", help="only experiments with this label")
    parser.add_argument("--limit", type=int, default=20, help="most experiments to list (default 20)")
    parser.add_argument("--json", action="store_true", help="print REST's answer")


def execute(options: argparse.Namespace) -> int:
    wanted = {name: getattr(options, name) for name in ("owner", "state", "name", "label")}
    page = look().pages("/experiments", options.limit, **wanted)
    if options.json:
        output.print_json(page)
        return 0
    _print(page)
    return 0


def _print(page: dict[str, Any]) -> None:
    from orchestrator.reports.drawing import table
    from orchestrator.reports.tables.lists import experiments_table

    found = experiments_table(page["items"], output.state)
    if found.rows or page["damaged"]:
        print(table.text(found.headers, found.rows, output.width()))
    else:
        output.say("no experiments yet. Submit one: tbd submit SPEC.yaml, or run one here: tbd run resnet-50")
    for one in page["damaged"]:
        output.say(f"{one['id']} is damaged: {one['reason']}. To remove it: {one['way_out']}")
    if page["next_cursor"]:
        output.say("there are more: --limit")
