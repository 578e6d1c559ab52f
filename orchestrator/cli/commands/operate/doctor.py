"""Check this machine, or the nodes of the server. Exit code 1 when something is broken."""

import argparse

from orchestrator.cli.exits import DONE, RUN_FAILED
from orchestrator.cli.machine.findings import Finding
from orchestrator.cli.printing import output

_MARKS = {"ok": ("ok", "green"), "note": ("note", "yellow"), "broken": ("broken", "red")}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--nodes", action="store_true", help="the nodes of the server: what their agents meet")
    parser.add_argument("--all", action="store_true", help="with --nodes: also what is well there")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def execute(options: argparse.Namespace) -> int:
    found = _of_nodes() if options.nodes else _of_this_machine()
    if options.json:
        items: list[dict[str, str | None]] = [
            {"check": f.check, "level": f.level, "found": f.found, "advice": f.advice} for _, f in found
        ]
        if options.nodes:
            items = [{"node": node or None, **item} for (node, _), item in zip(found, items, strict=True)]
        output.print_json({"items": items, "next_cursor": None})
    else:
        shown = found if options.all or not options.nodes else [one for one in found if one[1].level != "ok"]
        _print(shown, options.nodes)
    return RUN_FAILED if any(finding.level == "broken" for _, finding in found) else DONE


def _of_this_machine() -> list[tuple[str, Finding]]:
    from orchestrator.cli.machine.checks import all_checks

    return [("", finding) for finding in all_checks()]


def _of_nodes() -> list[tuple[str, Finding]]:
    from orchestrator.cli.machine.node_checks import findings
    from orchestrator.cli.rest.locate import connect

    return list(findings(connect().get("/nodes/checks")["items"]))


def _alike(found: list[tuple[str, Finding]]) -> list[tuple[str, Finding]]:
    """The findings, those that several nodes have told once."""
    nodes: dict[Finding, list[str]] = {}
    for node, one in found:
        nodes.setdefault(one, []).append(node)
    return [(", ".join(named), one) for one, named in nodes.items()]


def _print(found: list[tuple[str, Finding]], with_nodes: bool) -> None:
    from orchestrator.reports.drawing import table

    rows = []
    for node, one in _alike(found) if with_nodes else found:
        text, colour = _MARKS[one.level]
        told = f"{one.found}. {one.advice}" if one.advice else one.found
        rows.append([output.coloured(text, colour), *([node or "nodes"] if with_nodes else []), one.check, told])
    if rows:
        headers = ["", *(["node"] if with_nodes else []), "check", "finding, and what to do"]
        print(table.text(headers, rows, output.width()))
    broken = sum(one.level == "broken" for _, one in found)
    output.say(f"{broken} broken" if broken else "nothing is broken")
