"""Analyse stored logs anew: which stored results would today's analysis change?

  tbd analyse               of all runs
  tbd analyse EXPERIMENT    of its runs
  tbd analyse RUN…

Nothing is changed: stored measurements keep the version of the code that made them.
"""

import argparse
from collections.abc import Iterator
from typing import Any

from orchestrator.cli.printing import output
from orchestrator.cli.rest import naming
from orchestrator.cli.rest.client import Client, path_of
from orchestrator.cli.rest.locate import look
from orchestrator.reports.numbers import NOTHING, plain


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="*", metavar="EXPERIMENT|RUN", help="without any: all runs")
    parser.add_argument("--json", action="store_true", help="print REST's answers, as {items: […]}")


def execute(options: argparse.Namespace) -> int:
    client = look()
    answers = []
    for run_id in _runs(client, options.ids):
        answers.append(client.get(path_of("runs", run_id, "reanalysis")))
        if not options.json:
            _print(answers[-1])
    if options.json:
        output.print_json({"items": answers})
    else:
        changed = sum(1 for answer in answers if answer["differences"])
        asked = sum(1 for answer in answers if answer["reason"] is None)
        output.say(f"{asked} runs analysed anew, {changed} would change, {len(answers) - asked} could not be analysed")
    return 0


def _runs(client: Client, ids: list[str]) -> Iterator[str]:
    if not ids:
        yield from (run["id"] for run in client.pages("/runs")["items"])
    for text in ids:
        one = naming.thing(client, text)
        if one.startswith("run_"):
            yield one
        else:
            yield from (run["id"] for run in client.pages(path_of("experiments", one, "runs"))["items"])


def _print(answer: dict[str, Any]) -> None:
    if answer["reason"]:
        print(f"{answer['run_id']}: {answer['reason']}")
        return
    versions = f"{answer['stored_code_version']} → {answer['code_version']}"
    if not answer["differences"]:
        print(f"{answer['run_id']}: the same ({versions})")
        return
    from orchestrator.reports.drawing import table

    print(f"{answer['run_id']}: would change ({versions})")
    rows = [["  " + one["what"], _text(one["stored"]), _text(one["now"])] for one in answer["differences"]]
    print(table.text(["  what", "stored", "now"], rows, output.width()))


def _text(value: Any) -> str:
    if value is None:
        return NOTHING
    return plain(value, 6) if isinstance(value, float) else str(value)
