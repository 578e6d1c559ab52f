"""The runs of ``tbd exec``: each cell again and again on this machine, or its part of a training over several nodes.

Imported by that command alone. The command and its folder are this machine's own; of several nodes the one that leads
says which cell comes next.
"""

import argparse
import os
import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator.cli.exits import FAILED, CommandError
from orchestrator.cli.printing import output

SECRET = "TBD_EXEC_SECRET"
LEAST_SECRET = 16  # characters: a judgement
TAIL_LINES = 15


class Cell(NamedTuple):
    """What is run again and again: the words of a command in a folder, and the options that tell it from others.
    ``unknown``: the files of the folder that git does not know, as they were before the first run."""

    words: Sequence[str]
    folder: Path
    options: Mapping[str, Any]
    label: str
    unknown: Mapping[bytes, bytes]


class One(NamedTuple):
    """One run: of a cell, the how-manieth, where its log goes, what stands before each line of progress. ``before``:
    the plan of an earlier run of the cell."""

    cell: Cell
    repetition: int
    log: Path
    said: str
    before: Mapping[str, Any] | None


def profiles(options: argparse.Namespace) -> list[str]:
    """What ``--profile`` asks for."""
    return [] if options.profile is None else options.profile.split(",")


@contextmanager
def met(options: argparse.Namespace, cells: Sequence[Cell], folder: Path) -> Iterator[Any]:
    """The meeting of all nodes (``workers.node.own.meeting``); None where there is one node. Whatever ends the command
    of the node that leads ends the others.

    Raises:
        CommandError: they do not come together.
    """
    if options.nodes is None:
        yield None
        return
    from workers.node.own.meeting import Hall, MeetingError

    host, _, port = options.meet.rpartition(":")
    try:
        hall = Hall(
            (host, int(port)),
            options.nodes,
            _inventory(folder)["node"],
            _asked(options, cells),
            os.environ[SECRET],
            output.say,
        )
        meeting = hall.meet()
    except MeetingError as error:
        raise CommandError(str(error), FAILED) from None
    try:
        yield meeting
    except MeetingError as error:
        raise CommandError(str(error), FAILED) from None
    except CommandError as error:
        if meeting.leads:
            meeting.say(over={"code": error.code, "said": f"{meeting.node}: {error}"})
        raise
    finally:
        meeting.close()


def _asked(options: argparse.Namespace, cells: Sequence[Cell]) -> dict[str, Any]:
    """What has to be the same on all nodes; of the command this is the training's own matter."""
    from workers.node.code_version import code_version
    from workers.node.own.repository import code_of

    names = ("nodes", "repeats", "seconds", "steps", "work", "unit", "profile", "timeout", "axis", "commits")
    asked = {f"--{name}": getattr(options, name) for name in names}
    commits = [code_of(cell.folder, cell.unknown)["commit"] for cell in cells]
    return {"the version of tbd": code_version()["version"], **asked, "the commit of the script": commits}


def carry_out(
    options: argparse.Namespace, cells: Sequence[Cell], folder: Path, meeting: Any = None
) -> tuple[list[Path], bool, bool]:
    """Run the cells block by block; the logs of the runs that ended, whether the last one failed, and whether it was
    interrupted. After a failed run there is none: the next one would fail as it did. A log has those of the other
    nodes behind it.

    Raises:
        CommandError: a device is held by somebody else.
    """
    logs: dict[tuple[int, int], Path] = {}
    plans: dict[str, Mapping[str, Any]] = {}
    order = random.Random(0)  # fixed: the same order whenever it is asked for
    total = options.repeats * len(cells)
    with _held(folder) as node:
        for repetition in range(1, options.repeats + 1):
            for cell in order.sample(cells, len(cells)):
                said = f"run {len(logs) + 1} of {total}{f' ({cell.label})' if cell.label else ''}: "
                log = folder / f"{len(logs) + 1:04}.jsonl"
                one = One(cell, repetition, log, said, plans.get(cell.label))
                begin = partial(_begin, meeting, cells.index(cell), repetition) if meeting is not None else None
                failure, plans[cell.label] = _run(options, one, node, meeting, begin)
                if meeting is not None:
                    failure = _together(meeting, log, failure)
                logs[repetition, cells.index(cell)] = log
                if failure is not None:
                    output.say(f"{said}{failure.kind}: {failure.message}")
                    whole = _in_order(logs, but=log if failure.kind == "cancelled" else None)
                    return whole, failure.kind != "cancelled", failure.kind == "cancelled"
    return _in_order(logs), False, False


def follow(options: argparse.Namespace, cells: Sequence[Cell], meeting: Any) -> int:
    """Carry out this node's part of what the one that leads says; the exit code of its command. The logs go there: a
    folder for them may be the same on all nodes.

    Raises:
        CommandError: a device is held by somebody else.
        MeetingError: the one that leads has gone.
    """
    plans: dict[str, Mapping[str, Any]] = {}
    number = 0
    with tempfile.TemporaryDirectory(prefix="tbd-exec-") as folder, _held(Path(folder)) as node:
        while (asked := meeting.next_run()) is not None:
            number += 1
            cell = cells[asked["cell"]]
            said = f"run {number}, led by {meeting.nodes[0]}: "
            one = One(cell, asked["repetition"], Path(folder) / f"{number}.jsonl", said, plans.get(cell.label))
            failure, plans[cell.label] = _run(
                options, one, node, meeting, lambda job, own=asked["own"]: job.update(own)
            )
            if failure is not None:
                output.say(f"{said}{failure.kind}: {failure.message}")
            meeting.say(ended=failure and {"kind": failure.kind, "message": failure.message})
            meeting.send_log(one.log)
            one.log.unlink()
    output.say(str(meeting.over["said"]))
    return int(meeting.over["code"])


def _begin(meeting: Any, cell: int, repetition: int, job: Mapping[str, Any]) -> None:
    """Have all nodes carry out ``job``, each with its own command of the cell of that number."""
    own = {name: job[name] for name in ("attempt_id", "run_id", "token", "plan")}
    meeting.begin({"cell": cell, "repetition": repetition, "own": own})


def _together(meeting: Any, log: Path, failure: Any) -> Any:
    """Put the logs of the other nodes behind this one's; the failure of the run on all of them."""
    from workers.node.outcome import Failure

    meeting.say(ended=failure and {"kind": failure.kind, "message": failure.message})
    with log.open("ab") as file:
        file.writelines(meeting.logs())
    for node in meeting.nodes[1:]:
        if node not in meeting.ended:  # then what happened here came of it
            here = "" if failure is None or failure.kind == "node_lost" else f"; here: {failure.message}"
            return Failure("node_lost", message=f"node {node} has gone{here}")
        told = meeting.ended[node]
        if told is not None and (failure is None or failure.kind == "node_lost" != told["kind"]):
            failure = Failure(told["kind"], message=f"node {node}: {told['message']}")
    return failure


def _inventory(folder: Path) -> dict[str, Any]:
    from workers.node.inventory import Inventory
    from workers.node.telemetry.nvml import Nvml

    nvml = Nvml()
    try:
        return Inventory(None, folder, nvml).read()
    except ValueError as error:
        raise CommandError(str(error)) from None
    finally:
        nvml.close()


@contextmanager
def _held(folder: Path) -> Iterator[str]:
    """Hold all devices of this machine; its name."""
    from workers.node.own import jobs
    from workers.trainer.base.failure import TrainerError

    inventory = _inventory(folder)
    try:
        with jobs.held([*inventory["devices"], *jobs.cpu_devices(1)]):
            yield inventory["node"]
    except TrainerError as error:
        raise CommandError(f"{error}: measure when it has ended (tbd ls)", FAILED) from None


def _in_order(logs: Mapping[tuple[int, int], Path], but: Path | None = None) -> list[Path]:
    """Block by block, each in the order of the cells, whatever order they ran in: results have that of the first block.
    Without ``but``, which was cut off."""
    return [logs[place] for place in sorted(logs) if logs[place] != but]


def _run(options: argparse.Namespace, one: One, node: str, meeting: Any, begin: Any) -> tuple[Any, Mapping[str, Any]]:
    """Carry out one run; its failure if it failed, and its plan as the log has it. ``begin`` is given the job first."""
    from workers.node.event_log import EventLog
    from workers.node.one_host import carry_out as carry_out_here
    from workers.node.own import jobs
    from workers.node.own.repository import code_of
    from workers.node.own.script import Command, OwnScript
    from workers.node.own.several import OverNodes

    cell = one.cell
    asked = jobs.Asked(options.seconds, options.steps, options.work, options.unit, options.timeout, profiles(options))
    script = {
        "words": [jobs.printable(word) for word in cell.words],
        "work": options.work,
        "unit": options.unit,
        **code_of(cell.folder, cell.unknown),
    }
    place = {} if meeting is None else {"host": meeting.host, "number": meeting.number}
    job = jobs.job_of(asked, cell.options, one.repetition, cell.words[0], script, node, one.before, **place)
    if begin is not None:
        begin(job)
    command = Command(cell.words, cell.folder, {name: text for name, text in os.environ.items() if name != SECRET})
    written = EventLog(one.log)
    make = partial(OwnScript, command) if meeting is None else partial(OverNodes, command, meeting)
    failure = carry_out_here(job, written, make, one.said)
    one.log.with_name(one.log.name + ".reserve").unlink(missing_ok=True)
    if failure is not None and failure.kind != "cancelled":
        _tell_end(written)
    return failure, written.slice(0, 1)[0]["data"]["job"]["plan"]


def _tell_end(log: Any) -> None:
    """The last that a command wrote to stderr: why it failed, more often than not."""
    ends = [one["data"] for one in log.slice(0, log.last_seq) if one["kind"] == "process_exited"]
    for line in ends[0]["stderr_tail"].rstrip().splitlines()[-TAIL_LINES:] if ends else ():
        output.say(f"  {line}")
