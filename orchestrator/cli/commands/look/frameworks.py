"""List the frameworks' interpreters, whether they are ready, and the options of each; or install some on this machine.

tbd frameworks install pytorch tensorflow
tbd frameworks derive pytorch --pin torch==2.12.1 --name pytorch-2.12    # other versions of some packages
"""

import argparse
from typing import Any

from orchestrator.cli.exits import CommandError
from orchestrator.cli.printing import output
from orchestrator.cli.rest.locate import look


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("order", nargs="?", choices=["install", "derive"])
    parser.add_argument("names", nargs="*", metavar="NAME", help="interpreters to build, or one to derive from")
    parser.add_argument("--pin", action="append", default=[], metavar="PACKAGE==VERSION", help="of what is derived")
    parser.add_argument("--name", help="of what is derived; its folder is in TBD_INTERPRETER_PATH")
    parser.add_argument("--json", action="store_true", help="print REST's answer")


def execute(options: argparse.Namespace) -> int:
    if options.order == "install":
        return _install(options.names)
    if options.order == "derive":
        return _derive(options)
    page = look("these are the interpreters of this machine").get("/frameworks")
    if options.json:
        output.print_json(page)
    else:
        _print([(framework["name"], one) for framework in page["items"] for one in framework["interpreters"]])
        _print_switches(page["items"])
        _print_strategy_options(page["items"])
    return 0


def _install(names: list[str]) -> int:
    if not names:
        raise CommandError("which? tbd frameworks install NAME…; tbd frameworks lists them")
    from workers.node.interpreters.__main__ import main

    return int(main(["install", *names]))


def _derive(options: argparse.Namespace) -> int:
    from workers.node.interpreters import InterpreterError
    from workers.node.interpreters.derived import derive, derived

    if len(options.names) != 1 or not options.name:
        raise CommandError("tbd frameworks derive INTERPRETER --pin PACKAGE==VERSION --name NAME")
    try:
        folder = derive(options.names[0], options.pin, options.name)
        definition = derived()[options.name].hash
    except InterpreterError as error:
        raise CommandError(str(error)) from None
    output.say(f"{folder}: build it on each node that has this folder: tbd frameworks install {options.name}")
    print(definition)
    return 0


def _print(interpreters: list[tuple[str, dict[str, Any]]]) -> None:
    from orchestrator.reports.drawing import table
    from orchestrator.reports.numbers import NOTHING

    rows = []
    for framework, one in interpreters:
        ready = {True: output.coloured("ready", "green"), False: output.coloured("missing", "red"), None: "unknown"}
        versions = ", ".join(f"{name} {version}" for name, version in (one["versions"] or {}).items())
        told = [one["node"], ready[one["ready"]], one["definition"] or NOTHING, one["reason"] or versions]
        rows.append([framework, one["name"], *told])
    headings = ["framework", "interpreter", "node", "state", "definition", "versions, or what to do"]
    print(table.text(headings, rows, output.width()))


def _print_switches(frameworks: list[dict[str, Any]]) -> None:
    from orchestrator.reports.drawing import table

    rows = [
        [framework["name"], switch["name"], ", ".join(switch["devices"]), ", ".join(switch["not_with"]), switch["help"]]
        for framework in frameworks
        for switch in framework["switches"]
    ]
    if rows:
        print()
        headings = ["framework", "option, true or false", "devices", "not with", "what it does"]
        print(table.text(headings, rows, output.width()))


def _print_strategy_options(frameworks: list[dict[str, Any]]) -> None:
    from orchestrator.reports.drawing import table

    rows = [
        [framework["name"], strategy["name"], option["name"], str(option["default"]), option["help"]]
        for framework in frameworks
        for strategy in framework["strategies"]
        for option in strategy["options"]
    ]
    if rows:
        print()
        print(table.text(["framework", "strategy", "option", "default", "what it does"], rows, output.width()))
