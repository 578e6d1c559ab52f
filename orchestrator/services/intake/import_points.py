"""Import the result files of another tool as points of series of their own."""

import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, BinaryIO

from orchestrator.analysis.history import milabench
from orchestrator.analysis.history.milabench import Process
from orchestrator.domain.around.access import Actor
from orchestrator.domain.around.imported_points import ImportedPoint, Stored, id_of, series_of
from orchestrator.domain.words.errors import InvalidRequest, Problem
from orchestrator.domain.words.untrusted import text_problem, visible
from orchestrator.services.context import Context
from orchestrator.services.tokens import deed_of

MOST_FILES = 10_000  # of one import: a judgement
ENDING = ".data"


@dataclass(frozen=True)
class Imported:
    """What became of an import. ``skipped``: files that tell of no run, each with why."""

    stored: Stored
    skipped: Sequence[tuple[str, str]]


def import_milabench(context: Context, archive: BinaryIO, source: str, by: Actor) -> Imported:
    """Store what the ``*.data`` files of a tar archive tell, all of it or nothing.

    Raises:
        InvalidRequest: the archive or a file in it is not what it should be; the pointer names file and line.
        Conflict: a session of that name is there, made of other files.
    """
    if text_problem(source) or len(source) > 100:
        raise InvalidRequest([Problem("/name", "a name of at most 100 signs, without control characters")])
    processes, skipped = _read(archive)
    if not processes:
        what = (
            f"none of the {len(skipped)} files tells of a run that began" if skipped else f"there is no *{ENDING} file"
        )
        raise InvalidRequest([Problem("", f"{what}: name a folder of a run, such as runs/NAME.2025-04-15_11:49:00")])
    now = context.clock.now()
    points = [_point(theirs, source, by.owner, now) for theirs in milabench.sessions_of(processes)]
    deed = deed_of(by, now, "import milabench", points[0].id if len(points) == 1 else f"{len(points)} points")
    return Imported(context.store.add_imported(points, deed), skipped)


def _read(archive: BinaryIO) -> tuple[list[Process], list[tuple[str, str]]]:
    """(the processes that the files tell of, the files that tell of none, each with why)."""
    processes: list[Process] = []
    skipped: list[tuple[str, str]] = []
    try:
        with tarfile.open(fileobj=archive, mode="r|") as tar:
            for name, file in _files(tar):
                one = milabench.read_process(name, _lines(file))
                if one is None:
                    skipped.append((name, "it tells of no run: milabench leaves that for a benchmark that it skips"))
                elif one.started_at is None:
                    skipped.append((name, "the run never started"))
                else:
                    processes.append(one)
    except (tarfile.TarError, EOFError) as error:
        raise InvalidRequest([Problem("", f"it is no tar archive, or not a whole one: {error}")]) from None
    return processes, skipped


def _files(tar: tarfile.TarFile) -> Iterator[tuple[str, IO[bytes]]]:
    """(name, content) of the files of interest. Nothing is written to a disk, so no name leads anywhere."""
    count = 0
    for member in tar:
        file = tar.extractfile(member) if member.isreg() and member.name.endswith(ENDING) else None
        if file is None:
            continue
        count += 1
        if count > MOST_FILES:
            raise InvalidRequest([Problem("", f"more than {MOST_FILES} files: import the runs one by one")])
        yield visible(member.name)[-300:], file


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    while line := file.readline(milabench.LONGEST_LINE + 1):
        yield line


def _point(processes: Sequence[Process], source: str, owner: str, now: float) -> ImportedPoint:
    first = processes[0]
    throughput, reason = milabench.throughput_of(processes)
    workload = milabench.workload_of(processes, source)
    subject = milabench.subject_of(processes)
    ends = [one.ended_at for one in processes if one.ended_at is not None]
    return ImportedPoint(
        id=id_of(milabench.TOOL, source, first.session, first.benchmark),
        owner=owner,
        source=source,
        tool=milabench.TOOL,
        tool_version=subject.get("milabench"),
        series=series_of(workload),
        session=first.session,
        benchmark=first.benchmark,
        at=min(one.started_at for one in processes if one.started_at is not None),
        ended_at=max(ends, default=None),
        throughput=throughput,
        reason=reason,
        workload=workload,
        subject=subject,
        rig=milabench.rig_of(processes),
        processes=tuple(one.told for one in processes),
        digest=milabench.digest_of(processes),
        imported_at=now,
    )


def remove_imported(context: Context, point_id: str, by: Actor) -> None:
    """Remove an imported point.

    Raises:
        NotFound: there is none.
        NotAllowed: it is somebody else's.
    """
    by.check_may_change(point_id, context.store.owner_of_imported(point_id))
    context.store.remove_imported(point_id, deed_of(by, context.clock.now(), "import remove", point_id))
