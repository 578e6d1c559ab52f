"""A log that comes from outside, read once from its file: each line is checked, digested and written down as it will be
stored, and the whole is analysed. Of an attempt on several nodes the file has a log of each, one behind the other.
``log_process`` has a long one read apart from the server."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, groupby, islice
from typing import Annotated, Any, BinaryIO

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from orchestrator.analysis.analyse import analyse_read
from orchestrator.analysis.log.events import LogError, NodeLog, read_log
from orchestrator.domain.asked.placement import Device
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.runs.log import Entry, Line
from orchestrator.domain.value.measurement import Analysis
from orchestrator.domain.value.profile import KernelKinds
from orchestrator.domain.words import untrusted
from orchestrator.domain.words.errors import InvalidRequest, Problem
from workers.trainer.protocol import to_json

Name = Annotated[str, Field(strict=True, min_length=1, max_length=200)]
_PLAN = TypeAdapter(Plan)


@dataclass(frozen=True)
class Told:
    """What a log tells. ``digest``: its name, equal for equal entries, however their lines were written. ``entries``:
    node -> how many of the entries are its own."""

    digest: str
    entries: Mapping[str, int]
    job: Mapping[str, Any]
    plan: Plan
    began: float
    ended: float
    analysis: Analysis


class _Process(BaseModel):
    """What is read of a process of the job."""

    node: Name
    ranks: list[Annotated[int, Field(strict=True, ge=0)]]
    devices: list[Device]


class _Job(BaseModel):
    """What is read of the job beside its plan."""

    processes: list[_Process]


class _Opened(BaseModel):
    """What is read of ``log_opened``."""

    node: Name
    job: _Job


def read(file: BinaryIO, rows: BinaryIO, kinds: KernelKinds) -> Told:
    """What the log in ``file`` tells. Its entries are written to ``rows``, for ``stored_lines``.

    Args:
        kinds: what kind of work each kernel does, by its name.

    Raises:
        border.Malformed: a line is no JSON object; the text names it.
        InvalidRequest: it is no event log of an attempt, or says what cannot be; the pointer names the entry.
    """
    file.seek(0)
    lines = _Lines(file, rows)
    logs = _read_logs(lines)
    rows.flush()
    job, began = logs[0].job, float(lines.first["wall"])
    return Told(
        digest=lines.digest,
        entries={log.opened["node"]: log.entries for log in logs},
        job=job,
        plan=_plan_of(job),
        began=began,
        ended=max(began, float(lines.last["wall"])),  # another node's clock may be behind
        analysis=analyse_read(sorted(logs, key=lambda log: log.node), kinds),
    )


def stored_lines(rows: BinaryIO, behind: int = 0, count: int | None = None) -> Iterator[Line]:
    """What ``read`` wrote to ``rows``, of ``count`` entries behind the first ones: of one node."""
    rows.seek(0)
    end = None if count is None else behind + count
    for number, row in enumerate(islice(rows, behind, end), start=1):
        kind, _, body = row.decode("ascii").rstrip("\n").partition("\t")
        yield Line(number, kind, body)


class _Lines:
    """The entries of a file, one at a time. An entry is kept when the next one is asked for: nobody objected to it."""

    def __init__(self, file: BinaryIO, rows: BinaryIO) -> None:
        self._file = file
        self._rows = rows
        self._sha256 = hashlib.sha256()
        self.first: Entry = {}
        self.last: Entry = {}

    @property
    def digest(self) -> str:
        return self._sha256.hexdigest()[:20]

    def __iter__(self) -> Iterator[Entry]:
        for number, line in enumerate(self._file, start=1):
            entry = _entry(number, line)
            if entry is None:
                break
            yield entry
            if number == 1:
                self.first = entry
            self.last = entry
            self._keep(number, entry)

    def _keep(self, number: int, entry: Entry) -> None:
        """The node is a column of its own: it is not repeated in the stored body."""
        text = to_json(entry)
        self._sha256.update((("\n" if number > 1 else "") + text).encode())
        body = to_json({key: entry[key] for key in entry if key != "node"}) if "node" in entry else text
        self._rows.write(f"{entry['kind']}\t{body}\n".encode("ascii"))


def _entry(number: int, line: bytes) -> Entry | None:
    """None for a last line whose write was cut short: what stands before it is a log that ends early.

    Raises:
        border.Malformed: it is no JSON object.
        InvalidRequest: it holds text or numbers that nothing may hold.
    """
    try:
        entry, problems = untrusted.parse_entry(line)
    except untrusted.Malformed as error:
        if number > 1 and not line.endswith(b"\n"):
            return None
        raise untrusted.Malformed(f"line {number} of the log is no JSON: {error}") from None
    if not isinstance(entry, dict):
        raise untrusted.Malformed(f"line {number} of the log is no JSON object")
    if problems:
        raise InvalidRequest([Problem(f"/{number - 1}{one.pointer}", one.message) for one in problems])
    return entry


def _read_logs(lines: _Lines) -> list[NodeLog]:
    """The log of each node, after a check of every entry.

    Raises:
        InvalidRequest: see ``read``; or the logs are not of one attempt.
    """
    logs: list[NodeLog] = []
    opened = behind = 0

    def log_of(entry: Entry) -> int:
        nonlocal opened
        opened += entry.get("kind") == "log_opened"
        return opened

    for _, entries in groupby(lines, log_of):
        log = _read_log(entries, behind)
        same = ("attempt_id", "run_id")
        if logs and any(log.opened[name] != logs[0].opened[name] for name in same):
            raise InvalidRequest([Problem(f"/{behind}/data/attempt_id", "behind a log of another attempt")])
        if logs and log.job["plan"] != logs[0].job["plan"]:
            raise InvalidRequest([Problem(f"/{behind}/data/job/plan", "the log before has another plan")])
        if log.opened["node"] in [one.opened["node"] for one in logs]:
            raise InvalidRequest([Problem(f"/{behind}/data/node", f"a second log of node {log.opened['node']}")])
        logs.append(log)
        behind += log.entries
    if not logs:
        raise InvalidRequest([_BEGINNING])
    return logs


_BEGINNING = Problem("/0", "an event log begins with log_opened")


def _read_log(entries: Iterator[Entry], behind: int) -> NodeLog:
    """The log of one node, whose entries come behind so many others."""
    first = next(entries)
    if first.get("kind") != "log_opened":
        raise InvalidRequest([_BEGINNING])
    told = first.get("data")
    try:
        node = str(told.get("node")) if isinstance(told, Mapping) else "the host"
        log = read_log(node, chain([first], entries))
    except LogError as error:
        raise InvalidRequest([Problem(f"/{behind + (error.entry or 1) - 1}", str(error))]) from None
    try:
        _Opened.model_validate(log.opened)
        _plan_of(log.job)
    except ValidationError as error:
        raise InvalidRequest([_problem_of(one, behind) for one in error.errors()]) from None
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise InvalidRequest([Problem(f"/{behind}/data/job", f"{type(error).__name__}: {error}")]) from None
    return log


def _plan_of(job: Mapping[str, Any]) -> Plan:
    """The plan of ``job``, which a person may have written: each field is looked at, an open batch size resolved."""
    ranks = sum(len(process["ranks"]) for process in job["processes"])
    given = {name: value for name, value in job["plan"].items() if value is not None}
    data = Plan.from_json(job["plan"] | {"global_batch_size": job["plan"]["per_device_batch_size"] * ranks} | given)
    return _PLAN.validate_python({name: getattr(data, name) for name in Plan.__dataclass_fields__})


def _problem_of(error: Any, behind: int) -> Problem:
    at = error["loc"] if error["loc"][:1] in (("node",), ("job",)) else ("job", "plan", *error["loc"])
    return Problem(f"/{behind}/data" + "".join(f"/{part}" for part in at), error["msg"])
