"""Show what was measured of one workload night by night: a plot, a table, what changed where, and what is said of it.

Without SERIES the series are listed. SERIES is the key of one, or how no other key begins. Filters do as well, where
only one series agrees: tbd history --model resnet-50 --framework pytorch
"""

import argparse
from typing import Any

from orchestrator.cli.exits import CommandError
from orchestrator.cli.printing import output
from orchestrator.cli.rest import naming
from orchestrator.cli.rest.client import Client, path_of
from orchestrator.cli.rest.locate import look

PIPE_WIDTH = 100  # columns of a plot where there is no screen


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("series", metavar="SERIES", nargs="?", help="without it: the list of series")
    parser.add_argument("--model")
    parser.add_argument("--framework")
    parser.add_argument("--gpu", metavar="MODEL", help="only series on GPUs of this model (part of the name is enough)")
    parser.add_argument("--label", metavar="KEY=VALUE", help="of an experiment with a point in it")
    parser.add_argument("--experiment", metavar="EXPERIMENT", help="that it has a point of")
    parser.add_argument("--limit", type=int, help="most points, the newest (default 1000), or most series (default 50)")
    output.add_figure(parser, "a figure of the series")
    parser.add_argument("--json", action="store_true", help="print REST's answer")


def execute(options: argparse.Namespace) -> int:
    output.check_figure(options.figure)
    client = look()
    filters = {
        "series": options.series,
        "model": options.model,
        "framework": options.framework,
        "gpu_model": options.gpu,
        "label": options.label,
        "experiment": naming.experiment(client, options.experiment) if options.experiment else None,
    }
    wants_one = options.series is not None or options.figure is not None
    if not wants_one:
        return _list(client, filters, options)
    key = _only(client, filters)
    found = client.get(path_of("history", key), **({"limit": options.limit} if options.limit else {}))
    if options.json:
        output.print_json(found)
    else:
        _show(found)
    if options.figure:
        from orchestrator.reports.figures import history

        output.write_figure(options.figure, lambda: history.figure(found))
    return 0


def _list(client: Client, filters: dict[str, Any], options: argparse.Namespace) -> int:
    page = client.pages("/history", options.limit or 50, **filters)
    if options.json:
        output.print_json(page)
        return 0
    from orchestrator.cli.printing.tables import print_table
    from orchestrator.reports.tables.history import series_table

    if page["items"]:
        print_table(series_table(page["items"]))
    else:
        output.say("no series yet: one begins when the first run of a workload has ended")
    if page["next_cursor"]:
        output.say("there are more: --limit says how many are listed")
    return 0


def _only(client: Client, filters: dict[str, Any]) -> str:
    """The key of the only series that agrees.

    Raises:
        CommandError: none does, or several do; the text lists them.
    """
    from orchestrator.reports.tables.history import workload_text

    found = client.get("/history", limit=6, **filters)["items"]
    exact = [one for one in found if one["key"] == filters["series"]]
    if len(found) == 1 or exact:
        return str((exact or found)[0]["key"])
    named = f"{filters['series']!r}" if filters["series"] else "these filters"
    if not found:
        raise CommandError(f"there is no series for {named}: tbd history lists what there is")
    lines = [f"  {one['key']}  {workload_text(one['workload'])}" for one in found[:5]]
    raise CommandError("\n".join([f"several series agree with {named}:", *lines, *(["  …"] if len(found) > 5 else [])]))


def _show(found: Any) -> None:
    from orchestrator.cli.printing.tables import print_table
    from orchestrator.reports.tables.history import finding_lines, history_plot, history_table, workload_text

    for line in output.wrapped(f"series {found['key']}: {workload_text(found['workload'])}"):
        print(output.coloured(line, "bold"))
    try:
        drawn = history_plot(found, output.width() or PIPE_WIDTH)
    except ValueError as error:
        output.say(f"there is nothing to draw: {error}")
    else:
        print(f"\n{drawn}")
    print()
    print_table(history_table(found))
    told = finding_lines(found)
    if told:
        print("\n".join(["", *(line for text in told for line in output.wrapped(text))]))
