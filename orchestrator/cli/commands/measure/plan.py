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
    from orchestrator.reports.drawing import table
    from orchestrator.reports.tables.lists import preview_table

    found = preview_table(preview)
    print(table.text(found.headers, found.rows, output.width()))
    for note in found.notes:
        print(note)
