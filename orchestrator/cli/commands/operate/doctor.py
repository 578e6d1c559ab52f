"""Check this machine, and say what to do about each finding. Exit code 1 when something is broken."""

import argparse

from orchestrator.cli.exits import DONE, RUN_FAILED
from orchestrator.cli.printing import output

_MARKS = {"ok": ("ok", "green"), "note": ("note", "yellow"), "broken": ("broken", "red")}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def execute(options: argparse.Namespace) -> int:
    from orchestrator.cli.machine.checks import all_checks

    findings = list(all_checks())
    if options.json:
        items = [{"check": f.check, "level": f.level, "found": f.found, "advice": f.advice} for f in findings]
        output.print_json({"items": items, "next_cursor": None})
    else:
        _print([(f.check, f.level, f.found, f.advice) for f in findings])
    return RUN_FAILED if any(finding.level == "broken" for finding in findings) else DONE


def _print(findings: list[tuple[str, str, str, str]]) -> None:
    from orchestrator.reports.drawing import table

    rows = []
    for check, level, found, advice in findings:
        text, colour = _MARKS[level]
        rows.append([output.coloured(text, colour), check, f"{found}. {advice}" if advice else found])
    print(table.text(["", "check", "finding, and what to do"], rows, output.width()))
    broken = sum(level == "broken" for _, level, _, _ in findings)
    output.say(f"{broken} broken" if broken else "nothing is broken")
