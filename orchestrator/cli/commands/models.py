"""List the models of the suite."""

import argparse
from typing import Any

from orchestrator.cli import output
from orchestrator.cli.locate import client_of, find_server


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print REST's answer")


def execute(options: argparse.Namespace) -> int:
    page = _page()
    if options.json:
        output.print_json(page)
        return 0
    from orchestrator.reports import table
    from orchestrator.reports.numbers import plain

    rows = [
        [
            model["name"],
            model["domain"],
            ", ".join(model["frameworks"]),
            ", ".join(model["sizes"]),
            _count(model["parameters"]),
            plain(model["flops_per_sample"] and model["flops_per_sample"] / 1e9, 3),
            ", ".join(model["datasets"]),
        ]
        for model in page["items"]
    ]
    print(
        table.text(
            ["model", "domain", "frameworks", "sizes", "parameters", "GFLOP/sample", "data"], rows, output.width()
        )
    )
    return 0


def _page() -> Any:
    """As the server has it; where there is none, what comes with tbd here."""
    url = find_server()
    if url is not None:
        return client_of(url).get("/models")
    from orchestrator.cli import here

    output.say("no server: these are the models of this installation")
    return here.models()


def _count(number: int | None) -> str:
    return "–" if number is None else f"{number:,}"  # noqa: RUF001 - a dash on purpose
