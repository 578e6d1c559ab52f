"""Print what a run's framework printed."""

import argparse
import sys
from collections.abc import Iterator
from typing import Any

from orchestrator.cli.printing import output
from orchestrator.cli.rest import naming
from orchestrator.cli.rest.client import Client, path_of
from orchestrator.cli.rest.locate import look


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("--rank", type=int, help="only the process of this rank")
    parser.add_argument("--stream", choices=["stdout", "stderr"])
    parser.add_argument("--attempt", type=int, help="an attempt of the run (default: the latest)")
    parser.add_argument("-f", "--follow", action="store_true", help="all attempts, until the run has ended")
    parser.add_argument("--json", action="store_true", help="print REST's answer")


def execute(options: argparse.Namespace) -> int:
    client = look()
    path = path_of("runs", naming.run(client, options.run))
    wanted = {"rank": options.rank, "stream": options.stream}
    if options.follow and not options.json:
        _print(_live(client, f"{path}/events", **wanted))
        return 0
    page = client.pages(f"{path}/log", attempt=options.attempt, **wanted)
    if options.json:
        output.print_json(page)
    else:
        _print(page["items"])
    return 0


def _live(client: Client, path: str, rank: int | None, stream: str | None) -> Iterator[dict[str, Any]]:
    """The pieces of output of a run's event stream, as the log path would answer them."""
    ranks: dict[str, list[int]] = {}
    for event in client.events(path):
        if event.kind == "log_opened":
            ranks |= {process["name"]: process["ranks"] for process in event.data["data"]["job"]["processes"]}
        if event.kind != "output":
            continue
        piece = {**event.data["data"], "node": event.data["node"]}
        if (rank is None or rank in ranks.get(piece["process"], [])) and stream in (None, piece["stream"]):
            yield piece


def _print(pieces: Any) -> None:
    """Print pieces as they came; where another process or stream cuts in, its text begins on a new line."""
    before, ended = None, True
    for piece in pieces:
        source = (piece["node"], piece["process"], piece["stream"])
        if source != before and not ended:
            sys.stdout.write("\n")
        sys.stdout.write(piece["text"])
        sys.stdout.flush()
        before, ended = source, piece["text"].endswith("\n")
    if not ended:
        sys.stdout.write("\n")
