"""Show the alerts of the regression gate, acknowledge one, or replay a history.

tbd alerts                     what looked slower, was tried, and what that told; newest first
tbd alerts ack ID              it is known: a new baseline
tbd alerts --blind 2%          where a drop of 2 % would be missed, and how many runs a night would see it
tbd alerts replay NIGHTS.csv   what the gate would have tried of it, night by night, with what was known in each
tbd alerts replay milabench

NIGHTS.csv has a line for each run, with the columns series, at, place, subject, rate; it needs no server. milabench:
all that was imported of it (tbd import milabench). A replay tries nothing: docs/read_results/gate.md
"""

import argparse
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.cli.exits import DONE
from orchestrator.cli.printing import output
from orchestrator.cli.rest.client import path_of
from orchestrator.cli.rest.locate import connect, look
from orchestrator.cli.spec import csv_file
from orchestrator.serve.parser import Parser

if TYPE_CHECKING:
    from orchestrator.analysis.gate.candidates import Session

Json = dict[str, Any]
MILABENCH = "milabench"
NIGHTS = 60  # of a board, at most: cells that the last night did not have are listed as well
STATES = ("trying", "open", "acknowledged", "closed", "refuted", "unconfirmed")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--state", choices=STATES, help="only those in this state")
    parser.add_argument("--blind", type=percentage, metavar="2%", help="cells of which a drop of so much is not seen")
    parser.add_argument("--json", action="store_true", help="print REST's answer")
    orders = parser.add_subparsers(dest="order", metavar="ORDER", parser_class=Parser)
    ack = orders.add_parser("ack", help="acknowledge one: what it tells of is a new baseline")
    ack.add_argument("alert", metavar="ID")
    replay = orders.add_parser("replay", help="what the gate would have tried, night by night", description=__doc__)
    replay.add_argument("nights", metavar="NIGHTS.csv", help="a history as CSV; or milabench: what was imported of it")
    replay.add_argument("--json", action="store_true", help="print a list of what would have been tried")


def execute(options: argparse.Namespace) -> int:
    if options.order is None:
        return _listed(options) if options.blind is None else _blind(options)
    if options.order == "ack":
        found = connect().post(path_of("alerts", options.alert, "acknowledge"))
        output.say(f"{found['id']} is {found['state']}")
        return DONE
    return _replayed(options)


def percentage(text: str) -> float:
    """A ratio above 0 and below 1, of ``2%``."""
    try:
        found = float(text.removesuffix("%")) / 100.0
    except ValueError:
        found = math.nan
    if not 0.0 < found < 1.0 or not text.endswith("%"):
        raise argparse.ArgumentTypeError(f"{text!r} is no drop: write it in per cent, such as 2%")
    return found


def _blind(options: argparse.Namespace) -> int:
    """List the places of cells where the smallest drop that is seen is larger."""
    found = [
        {"schedule": board["schedule"], "axes": cell["axes"], **sight}
        for board in look().pages("/nightly", nights=NIGHTS)["items"]
        for cell in board["cells"]
        for sight in cell["sights"]
        if sight["smallest_drop_ratio"] > options.blind
    ]
    if options.json:
        output.print_json(found)
        return DONE
    from orchestrator.cli.printing.tables import print_table
    from orchestrator.reports.tables.gate import blind_table

    print_table(blind_table(found, options.blind))
    return DONE


def _listed(options: argparse.Namespace) -> int:
    client = look()
    page = client.pages("/alerts", state=options.state)
    if options.json:
        output.print_json(page)
        return DONE
    from orchestrator.cli.printing.tables import print_table
    from orchestrator.reports.tables.gate import alerts_table, equal_arms_text

    for one in page["damaged"]:
        output.say(f"{one['id']} is damaged: {one['reason']}. To remove it: {one['way_out']}")
    print_table(alerts_table(page["items"]))
    print(equal_arms_text(client.get("/alerts/equal-arms")))
    return DONE


def _replayed(options: argparse.Namespace) -> int:
    if options.nights == MILABENCH:
        series, names = _imported()
    else:
        from orchestrator.analysis.gate.nights import read_nights

        series, names = csv_file.read(options.nights, read_nights), {}
    items = _tried(series)
    if options.json:
        output.print_json(items)
        return DONE
    from orchestrator.cli.printing.tables import print_table
    from orchestrator.reports.tables.gate import replay_table

    nights = sum(len(sessions) for sessions in series.values())
    print_table(replay_table(items, names, f"{len(series)} series, {nights} sessions"))
    return DONE


def _tried(series: "Mapping[str, Sequence[Session]]") -> list[Json]:
    from orchestrator.analysis.gate.candidates import candidates_of, causes_of
    from orchestrator.domain.around.schedule import told as rfc3339

    found = [one for key, sessions in series.items() for one in candidates_of(key, sessions)]
    return [
        {
            "series": one.series,
            "at": rfc3339(one.at),
            "called_at": rfc3339(one.called_at),
            "kind": one.kind,
            "difference": one.difference,
            "place": one.place,
            "before": one.before,
            "after": one.after,
            "cause": number,
        }
        for number, cause in enumerate(causes_of(found), 1)
        for one in cause
    ]


def _imported() -> "tuple[dict[str, list[Session]], dict[str, str]]":
    """(the sessions of each imported series, what its benchmark is called)."""
    from datetime import datetime

    from orchestrator.analysis.gate.candidates import Session

    page = look().pages("/imports", tool=MILABENCH)
    series: dict[str, list[Session]] = {}
    names: dict[str, str] = {}
    for one in page["items"]:
        rate = (one["throughput"] or {}).get("value")
        if isinstance(rate, int | float) and rate > 0:
            subject = ", ".join(f"{name} {value}" for name, value in sorted(one["subject"].items()))
            at = datetime.fromisoformat(one["at"]).timestamp()
            place = one["rig"].get("host", "unknown machine")
            series.setdefault(one["series"], []).append(Session(at, place, subject, math.log(rate)))
            names[one["series"]] = f"{one['benchmark']} ({one['series']})"
    if not series:
        output.say("no points were imported yet: tbd import milabench PATH")
    return series, names
