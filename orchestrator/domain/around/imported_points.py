"""Points that another tool measured: a history that its users bring along.

They are series of their own. Nobody knows their warm-up, whether they trained rightly, or what else ran: they have no
grade, and nothing of tbd is compared with them as if it had measured them.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from orchestrator.domain.around.access import Deed
from orchestrator.domain.runs.stored import Page
from orchestrator.domain.value.measurement import Measurement

ID_PREFIX = "imp"
# Keys of tbd's own series are 16 hexadecimal digits (``fingerprint``): none of them begins so.
SERIES_PREFIX = "imported-"


@dataclass(frozen=True)
class ImportedPoint:
    """What one session of another tool found for one of its benchmarks.

    Attributes:
        id: of the session, the benchmark and ``source``: the same file again is the same point.
        source: what its importer calls the place it comes from; part of the series.
        tool, tool_version: which tool measured it; the version as its file tells it, if it does.
        series: key of what belongs together, made of ``workload``.
        session, benchmark: the tool's own names.
        at: when its first process began; ``ended_at``: when the last one ended, where that is known.
        throughput: None with a ``reason``.
        subject, rig: versions and machine as the file tells them.
        processes: what each process of it came to.
        digest: of the files that it was made of.
    """

    id: str
    owner: str
    source: str
    tool: str
    tool_version: str | None
    series: str
    session: str
    benchmark: str
    at: float
    ended_at: float | None
    throughput: Measurement | None
    reason: str | None
    workload: Mapping[str, Any]
    subject: Mapping[str, Any]
    rig: Mapping[str, Any]
    processes: Sequence[Mapping[str, Any]]
    digest: str
    imported_at: float


@dataclass(frozen=True)
class ImportedSeries:
    """A series of imported points in a list. ``workload`` is that of one of them; the first and the last were at."""

    key: str
    tool: str
    source: str
    benchmark: str
    workload: Mapping[str, Any]
    n_points: int
    first_at: float
    last_at: float


@dataclass(frozen=True)
class ImportedFilter:
    """Which imported points are wanted."""

    owner: str | None = None
    series: str | None = None
    source: str | None = None
    tool: str | None = None
    benchmark: str | None = None


class Stored(NamedTuple):
    """What became of an import: the ids of points that are new, and of those that were there."""

    added: tuple[str, ...]
    already_there: tuple[str, ...]


class ImportedStore(Protocol):
    """What the store knows of imported points."""

    def add_imported(self, points: Sequence[ImportedPoint], deed: Deed) -> Stored:
        """Store those that are new, all in one transaction.

        Raises:
            Conflict: one has the id of a point that was made of other files. Nothing was stored.
        """

    def imported(
        self, wanted: ImportedFilter | None = None, *, limit: int = 50, cursor: str | None = None
    ) -> Page[ImportedPoint]:
        """Imported points, the latest session first.

        Raises:
            InvalidRequest: the cursor is not one of ours.
        """

    def imported_series(
        self, wanted: ImportedFilter | None = None, *, limit: int = 50, cursor: str | None = None
    ) -> Page[ImportedSeries]:
        """The series of the imported points that are wanted, that of the latest session first.

        Raises:
            InvalidRequest: the cursor is not one of ours.
        """

    def owner_of_imported(self, point_id: str) -> str:
        """Raises NotFound. Also of one that cannot be read."""

    def remove_imported(self, point_id: str, deed: Deed) -> None:
        """Raises NotFound."""


def series_of(workload: Mapping[str, Any]) -> str:
    """The key of the series of that workload."""
    return f"{SERIES_PREFIX}{_digest(workload)[:16]}"


def id_of(tool: str, source: str, session: str, benchmark: str) -> str:
    """The id of a point: the same for the same session, however often it is imported."""
    return f"{ID_PREFIX}_{_digest([tool, source, session, benchmark])[:20]}"


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
