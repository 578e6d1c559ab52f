"""Write a report of an experiment (Markdown): table with intervals, how measured, machine, how to reproduce."""

import argparse
import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from orchestrator.cli.exits import CommandError
from orchestrator.cli.printing import output
from orchestrator.cli.rest import naming
from orchestrator.cli.rest.client import Client, path_of
from orchestrator.cli.rest.locate import look


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", metavar="EXPERIMENT")
    parser.add_argument("-o", "--output", metavar="FILE", help="default: stdout")
    parser.add_argument("--json", action="store_true", help="print what the report is made of, as REST answers it")


def execute(options: argparse.Namespace) -> int:
    client = look()
    experiment = naming.experiment(client, options.experiment)
    if options.json:
        output.print_json(_material(client, experiment))
    elif options.output:
        write_report(client, experiment, options.output)
    else:
        print(_report(client, experiment))
    return 0


def write_report(client: Client, experiment_id: str, name: str) -> None:
    """Write the report to the file ``name``."""
    output.write_file(name, _report(client, experiment_id) + "\n")
    output.say(f"report: {name}")


def _report(client: Client, experiment_id: str) -> str:
    from orchestrator.reports.experiment_report import experiment_report

    return experiment_report(**_material(client, experiment_id))


def _material(client: Client, experiment_id: str) -> dict[str, Any]:
    path = path_of("experiments", experiment_id)
    rows = client.pages(f"{path}/results")["items"]
    return {
        "experiment": client.get(path),
        "rows": rows,
        "runs": client.pages(f"{path}/runs")["items"],
        "models": client.get("/models")["items"],
        "comparisons": _comparisons(client, f"{path}/comparisons"),
        "waterfalls": list(_waterfalls(client, rows)),
    }


def _waterfalls(client: Client, rows: Sequence[Any]) -> Iterator[Any]:
    """Of each cell of several devices that has a number; a cell that has none, such as one of an asynchronous strategy,
    is left out."""
    for row in rows:
        if row["axes"]["topology"] != "1x1" and row["throughput"]:
            with contextlib.suppress(CommandError):
                yield client.get(path_of("runs", run_that_counts(row), "waterfall"))


def run_that_counts(row: Any) -> str:
    """One of the runs that the numbers of a row rest on."""
    left_out = {one["run_id"] for one in row["left_out"]}
    return str(next((one for one in row["run_ids"] if one not in left_out), row["run_ids"][0]))


def _comparisons(client: Client, path: str) -> list[Any]:
    """The comparison by each axis that has several values, framework first."""
    first = client.get(path)
    return [first, *(client.get(path, axis=axis) for axis in first["axes"][1:])]
