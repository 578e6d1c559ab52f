"""Show what became of the cells of schedules in their last nights: green, amber, red, missing or invalid, and why.

SCHEDULE: its name, or its id; without it all of them.
"""

import argparse
from collections.abc import Iterator
from typing import Any

from orchestrator.cli.exits import DONE, FAILED, REGRESSION, CommandError
from orchestrator.cli.printing import output
from orchestrator.cli.rest.locate import look

Json = dict[str, Any]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("schedule", metavar="SCHEDULE", nargs="?", help="only this one")
    parser.add_argument("--nights", type=int, default=14, metavar="N", help="the last so many (1 to 60; default 14)")
    parser.add_argument("--owner", help="only schedules of this owner")
    parser.add_argument(
        "--fail-on-regression",
        action="store_true",
        help="exit 3 where the last night that is over has a cell that is confirmed slower, 1 where one of its cells "
        "is neither green nor amber, or there is no such night",
    )
    parser.add_argument("--json", action="store_true", help="print REST's answer")


def execute(options: argparse.Namespace) -> int:
    client = look()
    page = client.pages("/nightly", schedule=options.schedule, nights=options.nights, owner=options.owner)
    if options.json:
        output.print_json(page)
    else:
        _print(page)
    return _gate(page["items"]) if options.fail_on_regression else DONE


def _print(page: Json) -> None:
    from orchestrator.reports.tables.nightly import board_lines

    for number, board in enumerate(page["items"]):
        if number:
            print()
        for line in board_lines(board, output.width(), output.coloured):
            print(line)
    for one in page["damaged"]:
        output.say(f"{one['id']} is damaged: {one['reason']}. To remove it: {one['way_out']}")
    if not page["items"]:
        output.say('no schedules. Make one: tbd schedule add nightly "0 2 * * *" SPEC.yaml')


def _gate(boards: list[Json]) -> int:
    """The exit code of a gate. One that saw nothing is not green: it would be so when everything broke."""
    codes = [code for board in boards for code in _of_last_night(board)]
    if "confirmed" in codes:
        return REGRESSION
    without = [board["schedule"] for board in boards if not list(_of_last_night(board))]
    if without or not boards:
        raise CommandError(f"no night is over: {', '.join(without) or 'there is no schedule'}", FAILED)
    return DONE if all(code is None for code in codes) else FAILED


def _of_last_night(board: Json) -> Iterator[str | None]:
    """What is wrong in the last night that is over, in a word a cell; None for what is green, or looks slower only."""
    for place in reversed(range(len(board["nights"]))):
        if board["nights"][place]["state"] not in ("submitted", "waiting"):
            yield str(board["nights"][place]["state"])
            return
        cells = [cell["nights"][place] for cell in board["cells"]]
        cells = [one for one in cells if one["code"] != "no_such_cell"]
        if cells and all(one["colour"] != "running" and one["code"] != "waiting" for one in cells):
            yield from (None if one["colour"] in ("green", "amber") else str(one["code"]) for one in cells)
            return
