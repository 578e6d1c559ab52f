"""Compare two experiments or runs, cell by cell where the workload is the same: B against A. With one experiment: its
cells with each other, by one axis, such as --by framework.

Of two runs that were profiled, the kernels that appeared, vanished or changed are shown too.
"""

import argparse
from typing import Any

from orchestrator.cli.exits import DONE, FAILED, REGRESSION, CommandError
from orchestrator.cli.printing import output
from orchestrator.cli.rest import naming
from orchestrator.cli.rest.client import Client, path_of
from orchestrator.cli.rest.locate import look

FAMILY_ERROR = 0.05  # ``blocks.FAMILY_ERROR``, which would import numpy


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("one", metavar="A")
    parser.add_argument("other", metavar="B", nargs="?", help="without it: the cells of the experiment A")
    parser.add_argument(
        "--by",
        metavar="AXIS",
        help="compare the cells of A that differ in this axis only: a key of the spec, batch, or an option's name "
        "(default: framework where there are several, else the first axis of several values)",
    )
    parser.add_argument("--baseline", metavar="VALUE", help="of that axis: compare the others with it only")
    parser.add_argument(
        "--fail-on-regression",
        action="store_true",
        help="exit 3 where B is slower in any cell, at 5 %% for all of them together (Holm); 1 where nothing could be "
        "compared",
    )
    parser.add_argument("--kernels", action="store_true", help="of two runs: only their kernel tables, all rows")
    parser.add_argument("--json", action="store_true", help="print REST's answer")


def execute(options: argparse.Namespace) -> int:
    _refuse_contradictions(options)
    client = look()
    if options.other is None:
        return _compare_cells(client, naming.experiment(client, options.one), options)
    choose = naming.run if options.kernels else naming.thing
    options.one, options.other = (choose(client, text) for text in (options.one, options.other))
    if options.kernels:
        return _compare_kernels(client, options)
    comparison = client.get("/compare", baseline=options.one, candidate=options.other)
    if options.json:
        output.print_json(comparison)
    else:
        _print_comparison(client, comparison, options)
    return _gate(comparison) if options.fail_on_regression else DONE


def _refuse_contradictions(options: argparse.Namespace) -> None:
    if options.kernels and options.fail_on_regression:
        raise CommandError("--fail-on-regression judges cells: leave out --kernels")
    within = "--by" if options.by else "--baseline" if options.baseline else None
    if options.other is not None and within:
        raise CommandError(f"{within} compares the cells of one experiment with each other: leave out {options.other}")
    between = "--kernels" if options.kernels else "--fail-on-regression" if options.fail_on_regression else None
    if options.other is None and between:
        raise CommandError(f"{between} takes two things to compare: A and B")


def _compare_cells(client: Client, experiment_id: str, options: argparse.Namespace) -> int:
    path = path_of("experiments", experiment_id, "comparisons")
    found = client.get(path, axis=options.by, baseline=options.baseline)
    if options.json:
        output.print_json(found)
        return DONE
    if found["axis"] is None:
        raise CommandError(f"{experiment_id} has nothing to compare: no axis has several values. Give a second one: B")
    if not options.by and len(found["axes"]) > 1:
        others = ", ".join(f"--by {axis}" for axis in found["axes"] if axis != found["axis"])
        output.say(f"by {found['axis']}; there is also {others}")
    from orchestrator.cli.printing.tables import print_table
    from orchestrator.reports.tables.comparison import pairs_table

    print_table(pairs_table(found))
    return DONE


def _print_comparison(client: Client, comparison: dict[str, Any], options: argparse.Namespace) -> None:
    from orchestrator.cli.printing.profile_tables import MOST_ROWS, print_kernel_changes
    from orchestrator.reports.drawing import table
    from orchestrator.reports.tables.comparison import sides_table

    found = sides_table(comparison)
    if found.rows:
        print(table.text(found.headers, found.rows, output.width()))
    for note in found.notes:
        print(note)
    if all(one.startswith("run_") for one in (options.one, options.other)):
        changes = _kernel_changes(client, options)
        if changes["items"]:
            print()
            print_kernel_changes(changes, MOST_ROWS)


def _gate(comparison: dict[str, Any]) -> int:
    """The exit code of a gate. One that could compare nothing is not green: it would be so when everything broke."""
    items = comparison["items"]
    slower = [item for item in items if item["verdict"] == "slower"]
    if any(item["p_holm"] <= FAMILY_ERROR for item in slower):
        return REGRESSION
    if slower:
        output.say(f"slower alone, not among {len(items)} cells (5 % for all of them together, Holm): {len(slower)}")
    judged = sum(1 for item in items if _has_interval(item["difference"]))
    unmatched = len(comparison["unmatched"])
    if not judged:
        why = (
            "no cell has an interval: that takes two or more runs that count on each side"
            if items
            else "the two have no cell in common"
        )
        raise CommandError(f"nothing could be compared: {why}. A gate that saw nothing does not pass", FAILED)
    if judged < len(items) + unmatched:
        without = len(items) - judged
        output.say(f"{judged} cells were compared; {without} have no interval, {unmatched} are on one side only")
    return DONE


def _has_interval(difference: dict[str, Any] | None) -> bool:
    """Without an interval, as a single run has none, no difference can be told from chance."""
    return difference is not None and difference["ci_low"] is not None


def _kernel_changes(client: Client, options: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = client.get(path_of("runs", options.other, "kernels", "changes"), baseline=options.one)
    return found


def _compare_kernels(client: Client, options: argparse.Namespace) -> int:
    changes = _kernel_changes(client, options)
    if options.json:
        output.print_json(changes)
    else:
        from orchestrator.cli.printing.profile_tables import print_kernel_changes

        print_kernel_changes(changes, None)
    return DONE
