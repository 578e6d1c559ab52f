"""Measure your own training script as it stands: tbd exec -- python train.py

tbd exec --repeats 6 --seconds 20 -- python train.py --batch 32
tbd exec --axis lr=0.1,0.2 -- python train.py --lr {lr}
tbd exec --commits main,. --fail-on-regression -- python train.py
tbd exec --commits main,HEAD --series tune -- python train.py

Nothing of the script is changed, and nothing is installed: it runs here, as you, in this folder, with what PATH names.
A run ends after its timed steps, or when the script does. Its steps are those of PyTorch's optimisers; anything else
says them by itself: import tbd_hook; tbd_hook.begin(); tbd_hook.step(work=n) (docs/use/exec.md).
"""

import argparse
import itertools
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from orchestrator.cli.exits import DONE, FAILED, INTERRUPTED, REGRESSION, RUN_FAILED, CommandError
from orchestrator.cli.machine import own_runs
from orchestrator.cli.machine.own_runs import Cell
from orchestrator.cli.printing import output

CODE = "code"  # the option that names a commit
OWN_OPTIONS = ("script", "command", "unit", "work", CODE)
UNITS = ("samples", "tokens", "steps")
LONGEST_TEXT = 1000  # of a command, as a workload names it
MOST_REPEATS = 1000


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("command", nargs="*", metavar="-- COMMAND", help="what you would type without tbd")
    add("--repeats", type=int, default=6, metavar="N", help="runs, each in fresh processes (default 6)")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--seconds", type=float, metavar="S", help="of timed steps of a run (default 20, 20 intervals)")
    length.add_argument("--steps", type=int, metavar="N", help="timed steps of a run instead")
    add("--work", type=float, metavar="N", help="what one step of a rank does, in --unit")
    add("--unit", metavar="UNIT", help="samples, tokens or steps; with --work any word")
    add("--profile", metavar="P1,P2", help="kernels, memory: steps under a profiler after the timed ones")
    add("--timeout", type=float, default=3600.0, metavar="S", help="of one run in all (default 3600)")
    add("--axis", action="append", default=[], metavar="NAME=V1,V2", help="fills {NAME} in COMMAND, a cell each")
    add("--commits", metavar="A,B", help="run these commits, from work trees of their own; . is this folder as it is")
    add("--fail-on-regression", action="store_true", help="exit 3 where a cell is slower than the first value's")
    add(
        "--series",
        metavar="NAME",
        help="one of many tries of it: all of them together keep a null edit in 5 %% or less",
    )
    add("--claim", action="store_true", help="of --series: its first commit against its last kept edit, measured anew")
    add("--nodes", type=int, metavar="N", help="of a training over N nodes: give the same command on each of them")
    add("--meet", metavar="HOST:PORT", help="with --nodes: where they meet, an address of the first node")
    add("--name", help="of the script and the experiment (default: the script's)")
    add("--logs", metavar="FOLDER", help="keep the event log of each run there")
    add("--json", action="store_true", help="print the results as REST answers them")
    add("--write-hook", action="store_true", help="copy tbd_hook.py into this folder, and do nothing else")


def execute(options: argparse.Namespace) -> int:
    from workers.trainer import hook

    if options.write_hook:
        return _write_hook(Path(hook.__file__))
    _refuse(options, nested=hook.FOLDER_VARIABLE in os.environ)
    found = shutil.which(options.command[0])
    if found is None and os.path.isfile(options.command[0]):
        raise CommandError(f"{options.command[0]} may not be executed: chmod +x it, or name what runs it (python, sh)")
    if found is None:
        raise CommandError(f"there is no command {options.command[0]!r} on PATH, and no such file to run")
    words = [os.path.abspath(found), *options.command[1:]]
    series = _series(options)
    axes = _axes(options)
    with _kept_logs(options.logs) as folder, _folders(options.commits) as folders:
        cells = _cells(options, words, axes, folders)
        with own_runs.met(options, cells, folder) as meeting:
            if meeting is not None and not meeting.leads:
                return own_runs.follow(options, cells, meeting)
            begun = _begin(series, cells, options)
            logs, failed, interrupted = own_runs.carry_out(options, cells, folder, meeting)
            client, experiment_id = _keep(logs, options)
            code, compared = _show(client, experiment_id, options, _first_axis(axes, options.commits))
            if series is not None and begun is not None:
                output.say(series.end(begun, _only_pair(compared), experiment_id))
            if interrupted:
                text = f"interrupted after {len(logs)} runs, which are kept as {experiment_id}"
                raise CommandError(text, INTERRUPTED)
            code = RUN_FAILED if failed else code
            if meeting is not None:
                meeting.say(over={"code": code, "said": f"kept as {experiment_id} where {meeting.node} keeps results"})
            return code


def _write_hook(source: Path) -> int:
    target = Path("tbd_hook.py")
    if target.exists():
        raise CommandError(f"{target} is there already")
    output.write_file(str(target), source.read_bytes())
    print(target)
    return DONE


def _refuse(options: argparse.Namespace, nested: bool) -> None:
    """Refuse what contradicts itself, before anything runs.

    Raises:
        CommandError: with what to do instead.
    """
    if not options.command:
        raise CommandError("it takes a command, behind two dashes: tbd exec -- python train.py")
    if nested:
        raise CommandError("this runs within tbd exec already: measure the script from outside alone")
    if not 1 <= options.repeats <= MOST_REPEATS:
        raise CommandError(f"--repeats {options.repeats} is outside 1 to {MOST_REPEATS}")
    for name in ("seconds", "steps", "work", "timeout"):
        value = getattr(options, name)
        if value is not None and not 0 < value < float("inf"):
            raise CommandError(f"--{name} {value:g} is not above 0")
    if options.work is not None and not options.unit:
        raise CommandError(f"--work {options.work:g} of what? Say it with --unit, such as --unit tokens")
    if options.work is None and options.unit not in (None, *UNITS):
        raise CommandError(f"--unit {options.unit}: a loader gives {' or '.join(UNITS[:2])}; of others say --work")
    _refuse_nodes(options)
    from workers.node.own.jobs import PROFILES

    unknown = [one for one in own_runs.profiles(options) if one not in PROFILES]
    if unknown:
        raise CommandError(f"--profile {unknown[0]}: a script can be profiled for {' and '.join(PROFILES)}")
    if options.fail_on_regression and not (options.axis or options.commits or options.claim):
        raise CommandError("--fail-on-regression compares cells: give --axis or --commits")


def _refuse_nodes(options: argparse.Namespace) -> None:
    if options.nodes is None and options.meet is None:
        return
    if options.nodes is None or options.meet is None or options.nodes < 2:
        raise CommandError("--nodes N, 2 or more, goes with --meet HOST:PORT, and both are the same on all nodes")
    host, _, port = options.meet.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise CommandError(f"--meet {options.meet}: it is HOST:PORT, such as 10.0.0.1:29400")
    if options.series:
        raise CommandError("--series is for one node: give --commits and --nodes by themselves")
    if len(os.environ.get(own_runs.SECRET, "")) < own_runs.LEAST_SECRET:
        made = f"export {own_runs.SECRET}=$(openssl rand -hex 16)"
        raise CommandError(f"--nodes takes a secret, the same on all nodes: {made}")


def _series(options: argparse.Namespace) -> Any:
    """The series that this is a try of, or claims the gain of; then the commits are those of the claim.

    Raises:
        CommandError: what was asked for is neither.
    """
    from orchestrator.cli.rest.tries import Series

    if options.claim and (not options.series or options.axis or options.commits):
        raise CommandError("--claim takes --series NAME, and the commits from there: neither --commits nor --axis")
    if not options.series:
        return None
    series = Series(options.series)
    if options.claim:
        options.commits = ",".join(series.ends())
    elif options.repeats < 2:
        raise CommandError("--series judges pairs of runs: --repeats 2 or more, 12 to see a gain of 2 %")
    return series


def _begin(series: Any, cells: Sequence[Cell], options: argparse.Namespace) -> Any:
    """Take the level of the next try of the series; None where this is none.

    Raises:
        CommandError: a try is of two cells, and these are not.
    """
    from workers.node.own.repository import code_of

    if series is None or options.claim:
        return None
    if len(cells) != 2:
        raise CommandError("a try of --series has two cells, what is and the edit: --commits A,B or --axis NAME=A,B")
    codes = [code_of(cell.folder, cell.unknown) for cell in cells]
    return series.begin(
        [
            {"label": cell.label, "commit": code["commit"], "dirty_sha256": code["dirty_sha256"]}
            for cell, code in zip(cells, codes, strict=True)
        ]
    )


def _only_pair(compared: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    return compared["items"][0] if compared and compared["items"] else None


def _axes(options: argparse.Namespace) -> dict[str, list[Any]]:
    """Name -> values of each ``--axis``.

    Raises:
        CommandError: one of them is no axis, or COMMAND does not name it.
    """
    found: dict[str, list[Any]] = {}
    for text in options.axis:
        name, _, listed = text.partition("=")
        values = [_value(one) for one in listed.split(",")] if listed else []
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or not values or len(set(values)) < len(values):
            raise CommandError(f"--axis {text}: it is NAME=V1,V2 with different values")
        if name in OWN_OPTIONS or name in found:
            raise CommandError(f"--axis {name}: the name is taken; call it something else")
        if not any(f"{{{name}}}" in word for word in options.command):
            raise CommandError(f"--axis {name}: COMMAND does not name it; write {{{name}}} where its values go")
        found[name] = values
    return found


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        if str(value) == text:  # else the command would get another text than was written
            return value
    return text


@contextmanager
def _folders(commits: str | None) -> Iterator[dict[str, Path]]:
    """Commit -> the folder to run in; "" -> this one, where no commits are compared.

    Raises:
        CommandError: a commit cannot be had.
    """
    from workers.node.own.repository import RepositoryError, folders_of

    here = Path.cwd()
    if commits is None:
        yield {"": here}
        return
    asked = [one for one in commits.split(",") if one]
    if len(set(asked)) < len(asked) or not asked:
        raise CommandError(f"--commits {commits}: it is A,B with different names; . is this folder as it is")
    try:
        with folders_of(asked, here) as found:
            yield found
    except RepositoryError as error:
        raise CommandError(str(error)) from None


@contextmanager
def _kept_logs(named: str | None) -> Iterator[Path]:
    """The folder of the logs: the one that is ``named``, else one that goes with the command, if all went well."""
    folder = Path(named or tempfile.mkdtemp(prefix="tbd-exec-"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.glob("*.jsonl")):
            raise CommandError(f"--logs {folder}: there are logs already; a log is never written over")
    except OSError as error:
        raise CommandError(f"--logs {folder}: {error.strerror}") from None
    try:
        yield folder
    finally:
        if named is None:
            shutil.rmtree(folder, ignore_errors=True)


def _cells(
    options: argparse.Namespace, words: Sequence[str], axes: Mapping[str, list[Any]], folders: Mapping[str, Path]
) -> list[Cell]:
    from workers.node.own.jobs import printable
    from workers.node.own.repository import unknown_to_git

    # What a person would know it by: a template, so that cells differ in their axes alone.
    text = printable(shlex.join(options.command))[:LONGEST_TEXT]
    common = {"script": options.name or _script_name(options.command), "command": text}
    common |= {} if options.work is None else {"work": options.work}
    cells = []
    for commit, folder in folders.items():
        unknown = unknown_to_git(folder)
        for values in itertools.product(*axes.values()):
            chosen = dict(zip(axes, values, strict=True))
            filled = [_filled(word, chosen) for word in words]
            named = chosen | ({CODE: commit} if commit else {})
            label = ", ".join(f"{name}={value}" for name, value in named.items())
            cells.append(Cell(filled, folder, common | named, label, unknown))
    return cells


def _filled(word: str, values: Mapping[str, Any]) -> str:
    for name, value in values.items():
        word = word.replace(f"{{{name}}}", str(value))
    return word


def _script_name(command: Sequence[str]) -> str:
    """What a script is called where nobody says: the file of Python that the command names, else the command."""
    scripts = [word for word in command if word.endswith((".py", ".sh"))]
    modules = [command[number + 1] for number, word in enumerate(command[:-1]) if word == "-m"]
    return Path((scripts or modules[-1:] or [command[0]])[0]).name


def _keep(logs: Sequence[Path], options: argparse.Namespace) -> tuple[Any, str]:
    from orchestrator.cli.rest import keeping

    if not logs:
        raise CommandError("interrupted before a run had ended: nothing is kept", INTERRUPTED)
    name = re.sub(r"[^a-z0-9]+", "-", (options.name or _script_name(options.command)).lower()).strip("-")[:100]
    try:
        return keeping.keep(logs, name or "own-script")
    except CommandError as error:
        if options.logs:
            raise CommandError(f"{error}. The logs are in {options.logs}", error.code) from None
        kept = tempfile.mkdtemp(prefix="tbd-logs-")
        for log in logs:
            shutil.copy(log, kept)
        raise CommandError(f"{error}. The logs are kept in {kept}: tbd ingest takes each", error.code) from None


def _first_axis(axes: Mapping[str, list[Any]], commits: str | None) -> tuple[str, str] | None:
    """(axis, its first value): what cells are compared by, and with."""
    if commits:
        return CODE, next(one for one in commits.split(",") if one)
    return next(((name, str(values[0])) for name, values in axes.items()), None)


def _show(
    client: Any, experiment_id: str, options: argparse.Namespace, by: tuple[str, str] | None
) -> tuple[int, Mapping[str, Any] | None]:
    """Print the results; the exit code, and the comparison if there is one."""
    from orchestrator.cli.printing.tables import print_pairs, print_results
    from orchestrator.cli.rest.client import path_of

    found = client.pages(path_of("experiments", experiment_id, "results"))
    compared = None
    if by is not None and len(found["items"]) > 1:
        path = path_of("experiments", experiment_id, "comparisons")
        compared = client.get(path, axis=f"options.{by[0]}", baseline=by[1])
    if options.json:
        output.print_json(found)
    else:
        print_results(found["items"])
        _print_beside(client, found["items"])
        if compared is not None:
            print_pairs(compared)
        output.say(f"kept as {experiment_id}: tbd show {experiment_id}")
    return _gate(compared) if options.fail_on_regression else DONE, compared


def _print_beside(client: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    """What is no part of the steps, of each cell's first run that counts: start, input wait, phases."""
    from orchestrator.cli.rest.client import path_of
    from orchestrator.reports.numbers import duration, percent, value_of
    from orchestrator.reports.tables.results_table import run_that_counts

    for row in rows:
        run_id = run_that_counts(row)
        summary = client.get(path_of("runs", run_id))["summary"] or {}
        told = [f"start to first step {duration(value_of(row['start_up_s']))}"] if row["start_up_s"] else []
        told += [f"input wait {percent(value_of(row['input_ratio']))}"] if row["input_ratio"] else []
        told += [f"{name} {duration(seconds)} a run" for name, seconds in (summary.get("phases") or {}).items()]
        if counted := summary.get("operations"):
            told.append(f"{counted['flops_per_step'] / 1e9:.3g} GFLOP a step, counted")
        if told:
            output.print_dim(f"Beside the steps: {', '.join(told)}.")
        for name in row["axes"]["profile"] if row["throughput"] else ():
            output.say(f"{name} of this cell: tbd show {run_id} --{name}")


def _gate(compared: Mapping[str, Any] | None) -> int:
    """The exit code of a gate. One that could compare nothing is not green."""
    items = compared["items"] if compared else []
    if any(item["verdict"] == "slower" for item in items):
        return REGRESSION
    if not any(item["ratio"] and item["ratio"]["ci_low"] is not None for item in items):
        raise CommandError("nothing could be compared: a gate that saw nothing does not pass. Repeat more", FAILED)
    return DONE
