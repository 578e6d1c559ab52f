"""List the frameworks' interpreters, whether they are ready, and the options of each; or install some on this machine.

tbd frameworks install pytorch tensorflow
"""

import argparse
from typing import Any

from orchestrator.cli import output
from orchestrator.cli.exits import CommandError
from orchestrator.cli.locate import connect, find_server

HERE = "this machine"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("order", nargs="?", choices=["install"])
    parser.add_argument("names", nargs="*", metavar="NAME", help="interpreters to build")
    parser.add_argument("--json", action="store_true", help="print REST's answer")


def execute(options: argparse.Namespace) -> int:
    if options.order == "install":
        return _install(options.names)
    if find_server() is None:
        return _print_here(options.json)
    page = connect().get("/frameworks")
    if options.json:
        output.print_json(page)
    else:
        _print([(framework["name"], one) for framework in page["items"] for one in framework["interpreters"]])
        _print_switches(page["items"])
    return 0


def _install(names: list[str]) -> int:
    if not names:
        raise CommandError("which? tbd frameworks install NAME…; tbd frameworks lists them")
    from workers.node.interpreters.__main__ import main

    return int(main(["install", *names]))


def _print_here(as_json: bool) -> int:
    """Without a server: this machine's interpreters, as its agent would see them."""
    from workers.node import interpreters

    found = interpreters.describe()
    if as_json:
        output.print_json({"items": _as_rest_has_them(found), "next_cursor": None})
        return 0
    output.say("no server: these are the interpreters of this machine")
    _print([(one["framework"] or "", one | {"node": HERE}) for one in found])
    _print_switches(_as_rest_has_them(found))
    return 0


def _as_rest_has_them(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    from orchestrator.api.views.catalog import framework_view
    from orchestrator.services.catalog import load_catalog
    from orchestrator.services.frameworks import of_answers

    statuses = of_answers(load_catalog(), {HERE: {one["name"]: one for one in found}})
    return [framework_view(status).model_dump(mode="json") for status in statuses]


def _print(interpreters: list[tuple[str, dict[str, Any]]]) -> None:
    from orchestrator.reports import table

    rows = []
    for framework, one in interpreters:
        ready = {True: output.coloured("ready", "green"), False: output.coloured("missing", "red"), None: "unknown"}
        versions = ", ".join(f"{name} {version}" for name, version in (one["versions"] or {}).items())
        rows.append([framework, one["name"], one["node"], ready[one["ready"]], one["reason"] or versions])
    print(table.text(["framework", "interpreter", "node", "state", "versions, or what to do"], rows, output.width()))


def _print_switches(frameworks: list[dict[str, Any]]) -> None:
    from orchestrator.reports import table

    rows = [
        [framework["name"], switch["name"], ", ".join(switch["devices"]), ", ".join(switch["not_with"]), switch["help"]]
        for framework in frameworks
        for switch in framework["switches"]
    ]
    if rows:
        print()
        headings = ["framework", "option, true or false", "devices", "not with", "what it does"]
        print(table.text(headings, rows, output.width()))
