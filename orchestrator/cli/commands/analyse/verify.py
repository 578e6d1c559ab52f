"""Compute the results of a passport anew, and say whether they agree with what it tells: to nine digits.

It needs no server, no network and none of the frameworks. Exit code 0: all agrees; 1: what differs is listed; 2: the
file is no passport, or was changed on the way.
"""

import argparse
from pathlib import Path
from typing import Any

from orchestrator.cli.exits import DONE, FAILED, CommandError
from orchestrator.cli.printing import output

MOST_LISTED = 20


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="what tbd passport wrote")
    parser.add_argument("--json", action="store_true", help="print what was found, as JSON")


def execute(options: argparse.Namespace) -> int:
    from orchestrator.cli.passport.container import Container, NoPassport
    from orchestrator.services.intake.record import NoRecord

    try:
        container = Container(Path(options.file))
        try:
            found = _verified(container)
        finally:
            container.close()
    except (NoPassport, NoRecord) as error:
        raise CommandError(f"{options.file} is no passport that can be verified: {error}") from None
    except OSError as error:
        raise CommandError(f"{options.file}: {error.strerror}") from None
    if options.json:
        output.print_json(found)
    else:
        _print(options.file, found)
    return FAILED if found["differences"] else DONE


def _verified(container: Any) -> dict[str, Any]:
    """Raises NoPassport, NoRecord."""
    from orchestrator.analysis.analyse import CODE_VERSION
    from orchestrator.cli.passport.container import RECORD, TOLD, NoPassport
    from orchestrator.cli.passport.told import computed, differences, numbers, versions
    from orchestrator.domain.words.errors import TbdError
    from orchestrator.services.facts.catalog import load_catalog
    from orchestrator.services.intake.record import recorded

    kinds = load_catalog().kernel_kinds
    ids = [str(one) for one in container.manifest["experiments"]]
    told = {one: container.json(f"{one}/{TOLD}") for one in ids}
    records = [recorded(container.lines(f"{one}/{RECORD}"), kinds) for one in ids]
    if [one.experiment.id for one in records] != ids:
        raise NoPassport("its records are not of the experiments that it names")
    try:
        now = dict(computed(records))
        differ = [
            {"experiment": one, "where": each.where, "told": each.told, "now": each.now}
            for one in ids
            for each in differences(told[one], now[one])
        ]
        others = sorted({version for one in ids for version in versions(told[one])})
    except (KeyError, TypeError, AttributeError) as error:
        raise NoPassport(f"what it tells is not what tbd tells: {error!r}") from None
    except TbdError as error:  # records that contradict each other, or one that cannot be stored
        raise NoPassport(str(error)) from None
    return {
        "experiments": ids,
        "runs": sum(len(one.runs) for one in records),
        "numbers": sum(1 for one in ids for _ in numbers(told[one])),
        "analysis_version": CODE_VERSION,
        "other_analysis_versions": others,
        "anonymous": container.manifest.get("anonymous") is True,
        "differences": differ,
    }


def _print(name: str, found: dict[str, Any]) -> None:
    from orchestrator.domain.words.untrusted import visible
    from orchestrator.reports.drawing import table

    for version in found["other_analysis_versions"]:
        output.say(f"it was analysed by version {visible(str(version))}; this is {found['analysis_version']}")
    what = f"{found['numbers']} numbers of {found['runs']} runs, computed anew from their logs"
    if not found["differences"]:
        print(f"{name}: verified: {what}, agree to nine digits")
        return
    print(f"{name}: {len(found['differences'])} differ of {what}")
    rows = [[_text(one[part]) for part in ("experiment", "where", "told", "now")] for one in found["differences"]]
    print(table.text(["experiment", "where", "told", "now"], rows[:MOST_LISTED], output.width()))
    if len(rows) > MOST_LISTED:
        output.say(f"and {len(rows) - MOST_LISTED} more: --json has all")


def _text(value: Any) -> str:
    from orchestrator.domain.words.untrusted import visible

    return visible(str(value))[:200]
