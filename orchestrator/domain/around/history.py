"""History: what was found of one workload, session by session.

A *series* is everything that was measured of one workload (``fingerprint``: ``workload_key``), over all experiments. A
*point* of it is one cell of one experiment. A point that has no number says why: a night that failed is seen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from orchestrator.domain.around.access import Deed
from orchestrator.domain.around.imported_points import ImportedFilter, ImportedPoint, Stored
from orchestrator.domain.runs.filters import SeriesFilter
from orchestrator.domain.runs.row import Numbers, Share
from orchestrator.domain.runs.stored import Page, StoredCell
from orchestrator.domain.value.measurement import Grade, Measurement, Reason
from orchestrator.domain.words.errors import Damaged


@dataclass(frozen=True)
class Point:
    """One cell of one experiment, as its table of results has it.

    Attributes:
        at: when its first run began; of one that never began, when its experiment was made.
        interpreter: the named environment of its plan: an experiment may compare several.
        throughput: None with a ``reason``.
        grade: how far it may be believed, and ``reasons`` why not further.
        n_runs: that have ended, of which ``n_used`` are behind the number; ``n_open`` have not ended yet.
        shares: its runs by subject and rig, in the order in which they began; none without a number.
        source: the tool that measured it, with its version; None for tbd. Then ``experiment_id`` is that of the point
            (``imported_points``), ``cell_key`` the tool's name of it, and its processes stand for runs.
    """

    experiment_id: str
    cell_key: str
    workload_key: str
    at: float
    interpreter: str
    throughput: Measurement | None
    reason: str | None
    grade: Grade
    reasons: tuple[Reason, ...]
    n_runs: int
    n_used: int
    n_open: int
    shares: tuple[Share, ...]
    source: str | None = None


@dataclass(frozen=True)
class StoredSeries:
    """A series in a list: its key, its workload as the fingerprint has it, and its points, of which the first and the
    last are of experiments that were made then; of an imported one, of sessions that began then."""

    key: str
    workload: Mapping[str, Any]
    n_points: int
    first_at: float
    last_at: float


@dataclass(frozen=True)
class StoredPoint:
    """A cell that belongs to a series. ``numbers`` are those of its runs of that workload, as they were stored when the
    last run of the cell ended; None where a run is left or another version made them."""

    experiment_id: str
    experiment_name: str
    cell_id: str
    cell_key: str
    workload_key: str
    created_at: float
    numbers: Numbers | None


class HistoryStore(Protocol):
    """What the store knows of series, also of those that were imported."""

    def series(
        self, wanted: SeriesFilter | None = None, *, limit: int = 50, cursor: str | None = None
    ) -> Page[StoredSeries]:
        """Series, that of the newest experiment or session first.

        Raises:
            InvalidRequest: the cursor is not one of ours.
        """

    def points(self, series: str, limit: int) -> Sequence[StoredPoint]:
        """The newest ``limit`` points of the series of that key, oldest first: also cells of its plans of which nobody
        knows on which devices they would have run."""

    def stored_cells(self, cell_ids: Sequence[str]) -> tuple[Sequence[StoredCell], Sequence[Damaged]]:
        """(these cells with their runs, what of these cannot be read)."""

    def fingerprints(self, run_ids: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        """Run -> its fingerprint, of those that have one that can be read."""

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

    def owner_of_imported(self, point_id: str) -> str:
        """Raises NotFound. Also of one that cannot be read."""

    def remove_imported(self, point_id: str, deed: Deed) -> None:
        """Raises NotFound."""
