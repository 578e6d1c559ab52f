"""Bring along a history that another tool measured: its points become series of their own, marked as imported.

tbd import milabench runs/kolerovu.2025-04-15_11:49:00.061097 --name cluster-a

tbd rm ID removes a point again. docs/use/export.md says what such points can tell, and what they cannot.
"""

import argparse
import os
from pathlib import Path
from typing import Any

from orchestrator.cli.exits import CommandError
from orchestrator.cli.printing import output
from orchestrator.cli.rest.client import Client
from orchestrator.cli.rest.locate import connect, look
from orchestrator.serve.parser import Parser

Json = dict[str, Any]
ENDING = ".data"


def configure(parser: argparse.ArgumentParser) -> None:
    orders = parser.add_subparsers(dest="order", required=True, metavar="ORDER", parser_class=Parser)
    milabench = orders.add_parser("milabench", help="import milabench's result files")
    milabench.add_argument(
        "paths", nargs="+", metavar="PATH", help="a folder of a run, one of many runs, or *.data files"
    )
    milabench.add_argument("--name", default="", help="where it comes from, such as the cluster; part of the series")
    milabench.add_argument("--json", action="store_true", help="print REST's answer")
    listing = orders.add_parser("ls", help="list imported points, the latest session first")
    listing.add_argument("--series", metavar="KEY", help="only points of this series")
    listing.add_argument("--benchmark", metavar="NAME", help="only points of this benchmark")
    listing.add_argument("--owner", help="only points of this owner")
    listing.add_argument("--limit", type=int, default=100, help="most points (default 100)")
    listing.add_argument("--json", action="store_true", help="print REST's answer")


def execute(options: argparse.Namespace) -> int:
    if options.order == "ls":
        _list(look(), options)
    else:
        files = [file for path in options.paths for file in _found(Path(path))]
        _bring_in(connect(), files, options)
    return 0


def _found(path: Path) -> list[tuple[Path, str]]:
    """(file, its name in the archive) of what is to be imported from ``path``, in the order of names.

    Raises:
        CommandError: there is nothing.
    """
    if path.is_file():
        return [(path, path.name)]
    if not path.is_dir():
        raise CommandError(f"{path}: there is no such file or folder")
    base = path.resolve()
    files = sorted(file for file in base.rglob(f"*{ENDING}") if file.is_file())
    if not files:
        raise CommandError(f"{path}: there is no *{ENDING} file below it: name a folder of milabench's runs")
    return [(file, str(file.relative_to(base.parent))) for file in files]


def _bring_in(client: Client, files: list[tuple[Path, str]], options: argparse.Namespace) -> None:
    archive = _archive(files)
    key = os.urandom(16).hex()
    done = client.post(
        "/imports", raw=archive, content_type="application/x-tar", key=key, tool="milabench", name=options.name
    )
    if options.json:
        output.print_json(done)
        return
    for identifier in done["added"]:
        print(identifier)
    for one in done["skipped"]:
        output.say(f"{one['file']}: {one['reason']}")
    there = f", {len(done['already_there'])} were there already" if done["already_there"] else ""
    output.say(f"{len(done['added'])} points were imported{there}. See: tbd import ls")


def _archive(files: list[tuple[Path, str]]) -> bytes:
    """A tar of the files, without what is theirs on this machine only (owners, times)."""
    import io
    import tarfile

    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for file, name in files:
            entry = tarfile.TarInfo(name)
            try:
                with open(file, "rb") as opened:
                    entry.size = os.fstat(opened.fileno()).st_size
                    tar.addfile(entry, opened)
            except OSError as error:
                raise CommandError(f"{file}: {error.strerror or error}") from None
    return content.getvalue()


def _list(client: Client, options: argparse.Namespace) -> None:
    filters = {"series": options.series, "benchmark": options.benchmark, "owner": options.owner}
    page = client.pages("/imports", options.limit, **filters)
    if options.json:
        output.print_json(page)
        return
    from orchestrator.reports.drawing import table
    from orchestrator.reports.numbers import short_time

    rows = [
        [short_time(one["at"]), one["tool"], one["source"], one["benchmark"], _number(one), one["series"], one["id"]]
        for one in page["items"]
    ]
    if rows:
        print(
            table.text(
                ["time (UTC)", "by", "from", "benchmark", "rate (imported)", "series", "id"], rows, output.width()
            )
        )
    else:
        output.say("no points were imported yet: tbd import milabench PATH")
    for one in page["damaged"]:
        output.say(f"{one['id']} is damaged: {one['reason']}. To remove it: {one['way_out']}")


def _number(one: Json) -> str:
    from orchestrator.reports.numbers import with_interval

    rate = one["throughput"]
    return f"{with_interval(rate)} {rate['unit']}" if rate else str(one["reason"])
