"""Points that another tool measured: a history that its users bring along.

They are series of their own, whose points have a ``source`` (``history.Point``). Nobody knows their warm-up, whether
they trained rightly, or what else ran: none is called sound, and nothing that tbd has measured is compared with them.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from orchestrator.domain.value.measurement import Measurement
from orchestrator.domain.words.plain import Plain

ID_PREFIX = "imp"
# Keys of tbd's own series are 16 hexadecimal digits (``fingerprint``): none of them begins so.
SERIES_PREFIX = "imported-"


@dataclass(frozen=True)
class ImportedProcess(Plain):
    """What one process of a session came to: a file. Without a ``rate`` it has a ``reason``."""

    file: str
    devices: tuple[int, ...]
    n_rates: int
    rate: float | None
    rate_min: float | None
    rate_max: float | None
    return_code: int | None
    reason: str | None


@dataclass(frozen=True)
class ImportedPoint(Plain):
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
    processes: tuple[ImportedProcess, ...]
    digest: str
    imported_at: float


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


def series_of(workload: Mapping[str, Any]) -> str:
    """The key of the series of that workload."""
    return f"{SERIES_PREFIX}{_digest(workload)[:16]}"


def id_of(tool: str, source: str, session: str, benchmark: str) -> str:
    """The id of a point: the same for the same session, however often it is imported."""
    return f"{ID_PREFIX}_{_digest([tool, source, session, benchmark])[:20]}"


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
