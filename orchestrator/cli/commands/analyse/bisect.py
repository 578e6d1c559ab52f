"""Find the first slower one: of a model's commits between GOOD and BAD, or of definitions of an interpreter in a row.

tbd bisect GOOD BAD --of EXPERIMENT              # commits of a folder under TBD_SUITE_PATH, as git orders them
tbd bisect HASH HASH HASH --of EXPERIMENT        # definitions (tbd frameworks), in this order

Each step runs two of them side by side, as tbd compare --interleave does. What does not train is passed over.
"""

import argparse
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestrator.cli.exits import DONE, FAILED, CommandError
from orchestrator.cli.printing import output
from orchestrator.cli.rest import naming
from orchestrator.cli.rest.client import Client
from orchestrator.cli.rest.interleaving import tried
from orchestrator.cli.rest.locate import connect
from orchestrator.cli.spec.sizes import seconds, share

GIT_S = 60.0
SHOWN = 12  # digits of a commit


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("good", metavar="GOOD")
    parser.add_argument("rest", metavar="BAD", nargs="+", help="more than one: all of the row, in their order")
    parser.add_argument(
        "--of", metavar="WORKLOAD", required=True, help="an experiment or a run that they are tried with"
    )
    parser.add_argument("--repository", metavar="FOLDER", help="of the commits (the first folder of TBD_SUITE_PATH)")
    parser.add_argument("--detect", type=share, metavar="SHARE", help="the least loss that is looked for (2%%)")
    parser.add_argument("--budget", type=seconds, metavar="TIME", help="of the devices, for each question (20m)")
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")


def execute(options: argparse.Namespace) -> int:
    from orchestrator.analysis.gate import bisecting

    row = _row(options)
    try:
        search = bisecting.begin(len(row))
    except ValueError as error:
        raise CommandError(str(error)) from None
    client = connect()
    options.of = naming.thing(client, options.of)
    output.say(
        f"{len(row)} in a row: {bisecting.questions(len(row))} questions at most, each within --budget; the first is "
        f"whether {_short(row[-1])} is slower than {_short(row[0])}"
    )
    steps: list[dict[str, Any]] = []
    asked = {"of": options.of, "budget_s": options.budget, "level": bisecting.level(len(row)), "detect": options.detect}
    whole = _ask(client, row, len(row) - 1, asked, steps)
    if whole["answer"] != "slower":
        raise CommandError(f"{_short(row[-1])} is not told to be slower than {_short(row[0])}: {whole['text']}", FAILED)
    asked["detect"] = bisecting.asked(whole["effect_ratio"])
    while (place := search.next()) is not None:
        search = search.after(place, _ask(client, row, place, asked, steps)["answer"])
    return _print(options, [row[one] for one in search.suspects()], whole, steps)


def _ask(client: Client, row: Sequence[str], place: int, asked: Mapping[str, Any], steps: list[dict[str, Any]]) -> Any:
    """Hold that one against the first of the row; what it told."""
    experiment, found = tried(client, row[0], row[place], **asked)
    output.say(f"{_short(row[place])}: {found['text']}")
    steps.append({"candidate": row[place], "experiment_id": experiment, **found})
    return found


def _print(options: argparse.Namespace, suspects: list[str], whole: Any, steps: list[dict[str, Any]]) -> int:
    if options.json:
        output.print_json({"suspects": suspects, "effect_ratio": whole["effect_ratio"], "steps": steps})
    elif len(suspects) == 1:
        print(f"the first slower one: {suspects[0]}{_subject(options, suspects[0])}")
        print(f"from the first to the last: {whole['text']}")
    else:
        print(f"one of these is the first slower one; those before the last gave no answer: {', '.join(suspects)}")
    return DONE if len(suspects) == 1 else FAILED


def _row(options: argparse.Namespace) -> list[str]:
    """All of the row, the good one first.

    Raises:
        CommandError: git has no such commits, or BAD does not come after GOOD.
    """
    given = [options.good, *options.rest]
    if len(given) > 2:
        return given
    good, bad = (_git(options, "rev-parse", "--verify", "--quiet", f"{one}^{{commit}}") for one in given)
    if not (good and bad):
        lost = given[0] if not good else given[1]
        raise CommandError(f"{lost} is no commit of {_folder(options)}; definitions are named all, in their order")
    between = _git(options, "rev-list", "--reverse", "--ancestry-path", f"{good}..{bad}").split()
    if not between:
        raise CommandError(f"{given[1]} does not come after {given[0]} in {_folder(options)}")
    return [good, *between]


def _folder(options: argparse.Namespace) -> Path:
    if options.repository:
        return Path(options.repository)
    known = next(filter(None, os.environ.get("TBD_SUITE_PATH", "").split(os.pathsep)), None)
    if known is None:
        raise CommandError("whose commits are these? Name the folder of the model: --repository, or TBD_SUITE_PATH")
    return Path(known)


def _git(options: argparse.Namespace, *words: str) -> str:
    """What git says of the folder; nothing where it refuses."""
    command = ["git", "-C", str(_folder(options)), *words]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=GIT_S, check=False).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        raise CommandError(f"git: {error}", FAILED) from None


def _subject(options: argparse.Namespace, commit: str) -> str:
    if len(options.rest) > 1:
        return ""
    return f" {_git(options, 'log', '-1', '--format=%s', commit)}"


def _short(name: str) -> str:
    return name[:SHOWN]
