"""Check the TBD paper's observations 1 to 12 on the results in the database.

tbd observations [--numbers]
"""

import argparse

from orchestrator.cli.exits import DONE
from orchestrator.cli.printing import output
from orchestrator.cli.rest.locate import look

_COLOURS = {"holds": "green", "does_not": "red"}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--numbers", action="store_true", help="print the tests and the numbers each was judged by")
    parser.add_argument("--json", action="store_true", help="print them as REST answers them")


def execute(options: argparse.Namespace) -> int:
    found = look().get("/observations")
    if options.json:
        output.print_json(found)
        return DONE
    for one in found["items"]:
        word = one["answer"].replace("_", " ")
        told = output.coloured(word, _COLOURS.get(one["answer"], "dim"))
        print(f"{one['number']:>2}  {told}: {one['says']} {one['told'][:1].upper()}{one['told'][1:]}.")
        if options.numbers:
            print(output.coloured(f"      {one['test']}", "dim"))
            for line in one["numbers"]:
                print(f"      {line}")
    return DONE
