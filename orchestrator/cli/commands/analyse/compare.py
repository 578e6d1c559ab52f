"""Compare two experiments or runs, cell by cell where the workload is the same: B against A. With one experiment: its
cells with each other, by one axis, such as --by framework.

Of two runs that were profiled, the kernels that appeared, vanished or changed are shown too.

With --interleave both are run again, alternating on the same devices, as often as it takes: exit 3 where B is slower, 0
where there is no loss of that size, 1 where it cannot be told within the budget.
"""

import argparse
from collections.abc import Mapping
from typing import Any

from orchestrator.cli.exits import DONE, FAILED, REGRESSION, CommandError
from orchestrator.cli.printing import output
from orchestrator.cli.rest import naming
from orchestrator.cli.rest.client import Client, path_of
from orchestrator.cli.rest.interleaving import tried
from orchestrator.cli.rest.locate import connect, look
from orchestrator.cli.spec.sizes import seconds, share

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
    parser.add_argument(
        "--interleave", action="store_true", help="run both again side by side: exit 3 slower, 0 not, 1 cannot tell"
    )
    parser.add_argument(
        "--of",
        metavar="WORKLOAD",
        help="an experiment or a run: then A and B are commits (40 digits) of its model's folder under TBD_SUITE_PATH, "
        "or hashes of definitions of its interpreter (tbd frameworks)",
    )
    parser.add_argument("--detect", type=share, metavar="SHARE", help="the loss that is asked for (2%%)")
    parser.add_argument("--budget", type=seconds, metavar="TIME", help="of the devices' time, at most (20m)")
    parser.add_argument("--format", choices=("text", "md"), help="md: for a pull request")
    parser.add_argument("--kernels", action="store_true", help="of two runs: only their kernel tables, all rows")
    parser.add_argument("--json", action="store_true", help="print REST's answer")


def execute(options: argparse.Namespace) -> int:
    _refuse_contradictions(options)
    if options.interleave:
        return _interleave(connect(), options)
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
    alone = [name for name in ("of", "detect", "budget", "format") if getattr(options, name) is not None]
    if alone and not options.interleave:
        raise CommandError(f"--{alone[0]} goes with --interleave")
    others = [name for name in ("by", "baseline", "fail_on_regression", "kernels") if getattr(options, name)]
    if options.interleave and (others or options.other is None):
        told = f"leave out --{others[0].replace('_', '-')}" if others else "it takes A and B"
        raise CommandError(f"--interleave runs two things again: {told}")
    if options.kernels and options.fail_on_regression:
        raise CommandError("--fail-on-regression judges cells: leave out --kernels")
    within = "--by" if options.by else "--baseline" if options.baseline else None
    if options.other is not None and within:
        raise CommandError(f"{within} compares the cells of one experiment with each other: leave out {options.other}")
    between = "--kernels" if options.kernels else "--fail-on-regression" if options.fail_on_regression else None
    if options.other is None and between:
        raise CommandError(f"{between} takes two things to compare: A and B")


def _interleave(client: Client, options: argparse.Namespace) -> int:
    names = [options.one, options.other]
    if options.of is None:
        names = [naming.thing(client, name) for name in names]
    of = naming.thing(client, options.of) if options.of is not None else None
    experiment, found = tried(client, *names, of=of, detect=options.detect, budget_s=options.budget)
    if options.json:
        output.print_json(found)
    else:
        from orchestrator.reports.tables.gate import operators_text

        more = f"\n{operators_text(found['operators'])}" if found["operators"] else ""
        print((_told_in_markdown(options, experiment, found) if options.format == "md" else found["text"]) + more)
    return {"slower": REGRESSION, "no_such_loss": DONE}.get(found["answer"], FAILED)


def _told_in_markdown(options: argparse.Namespace, experiment_id: str, found: Mapping[str, Any]) -> str:
    from orchestrator.reports.drawing.table import markdown
    from orchestrator.reports.numbers import NOTHING

    bounds = [found[name] for name in ("ci_low", "ci_high")]
    interval = " to ".join(f"{one:+.1%}" for one in bounds) if None not in bounds else NOTHING
    effect = f"{found['effect_ratio']:+.1%}" if found["effect_ratio"] is not None else NOTHING
    row = [options.one, options.other, effect, interval, str(found["blocks"]), found["answer"].replace("_", " ")]
    table = markdown(["baseline", "candidate", "difference", "interval", "blocks", "answer"], [row])
    return f"{table}\n\nAsked for a loss of {found['asked_ratio']:.1%}, in {experiment_id}: {found['text']}."


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
