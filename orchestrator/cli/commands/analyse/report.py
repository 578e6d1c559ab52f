"""Write a report of experiments: table with intervals, figures, how measured, machine, how to reproduce."""

import argparse
import contextlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

from orchestrator.cli.exits import CommandError
from orchestrator.cli.printing import output
from orchestrator.cli.rest import naming
from orchestrator.cli.rest.client import Client, path_of
from orchestrator.cli.rest.locate import look
from orchestrator.reports.tables.results_table import run_that_counts

FORMATS = ("md", "html", "json")
DRAWN_ONLY = ("memory", "scaling")  # of what a report is made of


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiments", nargs="+", metavar="EXPERIMENT")
    parser.add_argument("-o", "--output", metavar="FILE", help="default: stdout")
    parser.add_argument(
        "--format",
        choices=FORMATS,
        help="md (default), html (one file, figures within; default for FILE.html), json (what it is made of)",
    )
    parser.add_argument("--json", dest="format", action="store_const", const="json", help="--format json")


def execute(options: argparse.Namespace) -> int:
    client = look()
    ids = list(dict.fromkeys(naming.experiment(client, name) for name in options.experiments))
    if options.output:
        write_report(client, ids, options.output, options.format)
    elif options.format == "json":
        output.print_json(_told(client, ids))
    else:
        print(_report(client, ids, options.format or "md"))
    return 0


def write_report(client: Client, ids: Sequence[str], name: str, form: str | None = None) -> None:
    """Write the report to the file ``name``, in the form that it ends with where no other is asked for."""
    form = form or ("html" if name.lower().endswith((".html", ".htm")) else "md")
    output.write_file(name, _report(client, ids, form) + "\n")
    output.say(f"report: {name}")


def _report(client: Client, ids: Sequence[str], form: str) -> str:
    from orchestrator.reports.experiment_report import experiment_report, observed

    told = _told(client, ids)
    if form == "json":
        return json.dumps(told, indent=2, ensure_ascii=False)
    parts = [
        experiment_report(**{name: one[name] for name in one if name not in DRAWN_ONLY}) for one in told["experiments"]
    ]
    report = "\n\n".join([*parts, observed(told["observations"])])
    if form == "md":
        return report
    from orchestrator.reports.html_report import figures_of, html_report

    title = ", ".join(one["experiment"]["name"] for one in told["experiments"])
    return html_report(report, title, [list(figures_of(one)) for one in told["experiments"]]).rstrip()


def _told(client: Client, ids: Sequence[str]) -> dict[str, Any]:
    """What a report is made of: of each experiment by itself, and the paper's observations on all of them together."""
    found = client.get("/observations", experiment=list(ids))["items"]
    return {"experiments": [_material(client, one) for one in ids], "observations": found}


def _material(client: Client, experiment_id: str) -> dict[str, Any]:
    path = path_of("experiments", experiment_id)
    rows = client.pages(f"{path}/results")["items"]
    return {
        "experiment": client.get(path),
        "rows": rows,
        "runs": client.pages(f"{path}/runs")["items"],
        "models": client.get("/models")["items"],
        "comparisons": comparisons(client, f"{path}/comparisons"),
        "waterfalls": list(_waterfalls(client, rows)),
        "datasets": client.get("/datasets")["items"],
        "kernels": list(_profiles(client, rows, "kernels")),
        "memory": list(_profiles(client, rows, "memory")),
        "scaling": client.get(f"{path}/scaling"),
    }


def _profiles(client: Client, rows: Sequence[Any], kind: str) -> Iterator[tuple[str, Any]]:
    """Of each cell that was profiled so: (by what it differs from the others, what was found)."""
    from orchestrator.reports.figures.cells import cell_name

    for row in rows:
        if kind in row["axes"]["profile"] and row["throughput"]:
            found = client.get(path_of("runs", run_that_counts(row), kind))
            if not found["reason"]:
                yield cell_name(row, rows, but=()), found


def _waterfalls(client: Client, rows: Sequence[Any]) -> Iterator[Any]:
    """Of each cell of several devices that has a number; a cell that has none, such as one of an asynchronous strategy,
    is left out."""
    for row in rows:
        if row["axes"]["topology"] != "1x1" and row["throughput"]:
            with contextlib.suppress(CommandError):
                yield client.get(path_of("runs", run_that_counts(row), "waterfall"))


def comparisons(client: Client, path: str) -> list[Any]:
    """The comparison by each axis that has several values, framework first."""
    first = client.get(path)
    return [first, *(client.get(path, axis=axis) for axis in first["axes"][1:])]
