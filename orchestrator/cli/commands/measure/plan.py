"""Show what an experiment would run, where and for how long, without running it.

tbd plan suites/quick.yaml
tbd plan resnet-50 -f pytorch --batch 4,8 --topology 1x1,1x2
tbd plan --fields  (what a file may hold, and what each field means)
"""

import argparse
from typing import Any

from orchestrator.cli.printing import output
from orchestrator.cli.rest.embedded import some_server
from orchestrator.cli.spec import spec_options


def configure(parser: argparse.ArgumentParser) -> None:
    spec_options.configure(parser)
    parser.add_argument("--fields", action=_Fields, nargs=0, help="list the fields of a SPEC.yaml, and do nothing else")
    parser.add_argument("--json", action="store_true", help="print REST's answer")


class _Fields(argparse.Action):
    """Like ``--help``: prints and ends, whatever else was asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from orchestrator.reports import spec_fields
        from orchestrator.reports.drawing import table

        rows = [[row.name, row.takes, row.default or "(needed)", row.means] for row in spec_fields.rows()]
        print(table.text(["field", "takes", "default", "means"], rows, output.width()))
        parser.exit()


def execute(options: argparse.Namespace) -> int:
    source = spec_options.Source(options)
    with some_server(source.check_here) as (client, _):
        preview = source.post(client, dry_run="true")
    if options.json:
        output.print_json(preview)
    else:
        _print(preview)
    return 0


def _print(preview: dict[str, Any]) -> None:
    from orchestrator.domain.expansion.bisection import most_left
    from orchestrator.reports.drawing import table
    from orchestrator.reports.numbers import duration, percent, plain

    rows = []
    for number, one in enumerate(preview["plans"], start=1):
        plan = one["plan"]
        where = ", ".join(one["nodes"]) if one["nodes"] else f"would wait: {one['waiting']}"
        cell = [plan[name] for name in ("model", "framework", "strategy")]
        batch = str(plan["per_device_batch_size"])
        rows.append([str(number), *cell, batch, plan["topology"], plan["device"], str(plan["repetition"]), where])
    headers = ["#", "model", "framework", "strategy", "batch", "topology", "device", "rep", "where"]
    print(table.text(headers, rows, output.width()))
    for one in preview["left_out"]:
        named = ", ".join(str(one["cell"][axis]) for axis in ("model", "framework", "topology"))
        print(f"left out: {named}: {one['reason']}")
    if searches := sum(one["plan"]["search"] for one in preview["plans"]):
        print(f"{searches} of them begin a search for the largest batch: at most {most_left({})} tries each")
    print(
        f"{preview['n_runs']} runs; at most {plain(preview['device_time_limit_s'] / 3600, 3)} device-hours (timeout_s)"
    )
    expected, width = preview["expected_duration_s"], preview["expected_half_width_ratio"]
    print(f"expected time: {duration(expected) if expected is not None else preview['expected_duration_reason']}")
    why = preview["expected_half_width_reason"]
    print(f"expected half-width of the 95 % intervals: {percent(width) if width is not None else why}")
