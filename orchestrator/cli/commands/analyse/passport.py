"""Write a passport: all that experiments are made of, and what was computed of it, for others to compute anew.

It holds spec, plans, the log of every attempt, results and comparisons. Whoever has it checks it with tbd verify FILE,
without a server and without a network. --anonymous, for a blind review, puts other names in the place of hosts, users,
addresses and paths, each the same everywhere.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from orchestrator.cli.exits import FAILED, CommandError
from orchestrator.cli.printing import output
from orchestrator.cli.rest import naming
from orchestrator.cli.rest.client import Client, path_of
from orchestrator.cli.rest.locate import look


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiments", nargs="+", metavar="EXPERIMENT")
    parser.add_argument("-o", "--output", required=True, metavar="FILE")
    parser.add_argument("--anonymous", action="store_true", help="other names for hosts, users, addresses and paths")


def execute(options: argparse.Namespace) -> int:
    from orchestrator.cli.passport import container
    from orchestrator.cli.passport.told import told_of

    client = look()
    ids = list(dict.fromkeys(naming.experiment(client, name) for name in options.experiments))
    told = {one: told_of(client, one) for one in ids}
    for one, found in told.items():
        if found["experiment"]["state"] == "active":
            raise CommandError(f"{one} goes on: a passport is of what has ended (tbd watch {one})")
    path = Path(options.output)
    try:
        container.write(path, _members(client, told, options.anonymous))
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}", FAILED) from None
    output.say(f"passport: {path} ({path.stat().st_size} bytes); tbd verify {path} computes it anew")
    return 0


def _members(client: Client, told: dict[str, Any], anonymous: bool) -> Iterator[tuple[str, Iterable[bytes]]]:
    from importlib.metadata import version

    from orchestrator.analysis.analyse import CODE_VERSION
    from orchestrator.cli.passport.anonymous import Names
    from orchestrator.cli.passport.container import FORMAT, MANIFEST, RECORD, TOLD, encoded

    python = ".".join(map(str, sys.version_info[:3]))
    made_by = {"tbd_version": version("tbd-orchestrator"), "analysis_version": CODE_VERSION, "python": python}
    manifest = {"format": FORMAT, "experiments": list(told), "anonymous": anonymous} | made_by
    yield MANIFEST, [encoded(manifest)]
    for one, found in told.items():
        path = path_of("experiments", one, "record")
        if not anonymous:
            yield f"{one}/{RECORD}", client.download(path)
            yield f"{one}/{TOLD}", [encoded(found)]
            continue
        names = Names()
        for line in _lines(client, path):
            names.look_for(line)
        yield f"{one}/{RECORD}", (encoded(names.replaced(line)) for line in _lines(client, path))
        yield f"{one}/{TOLD}", [encoded(_computed((names.replaced(line) for line in _lines(client, path)), found))]


def _lines(client: Client, path: str) -> Iterator[Any]:
    """The lines of a record as they come: logs may be larger than memory."""
    rest = b""
    for chunk in client.download(path):
        *whole, rest = (rest + chunk).split(b"\n")
        yield from map(json.loads, whole)


def _computed(lines: Iterable[Any], told: Any) -> Any:
    """What these lines come to, of which no number differs from what was told.

    Raises:
        CommandError: one does.
    """
    from orchestrator.cli.passport.told import computed, differences, numbers
    from orchestrator.services.facts.catalog import load_catalog
    from orchestrator.services.intake.record import NoRecord, recorded

    try:
        ((_, now),) = computed([recorded(lines, load_catalog().kernel_kinds)])
    except NoRecord as error:
        raise CommandError(f"what is stored cannot be told without names: {error}", FAILED) from None
    before, after = list(numbers(told)), list(numbers(now))
    changed = [f"{len(before)} numbers to {len(after)}"] if len(before) != len(after) else []
    changed += [f"{one.told} to {one.now}" for one in differences(before, after) if not changed]
    if changed:
        raise CommandError(f"numbers would change with the names, {changed[0]}: nothing was written", FAILED)
    return now
