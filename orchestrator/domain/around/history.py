"""History: what was found of one workload, session by session.

A *series* is everything that was measured of one workload (``fingerprint``: ``workload_key``), over all experiments. A
*point* of it is one cell of one experiment. A point that has no number says why: a night that failed is seen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from orchestrator.domain.runs.filters import SeriesFilter
from orchestrator.domain.runs.stored import Page, StoredCell
from orchestrator.domain.value.measurement import Grade, Measurement, Reason
from orchestrator.domain.words.errors import Damaged

UNKNOWN = ""  # the workload of runs that never told which devices they held


@dataclass(frozen=True)
class Share:
    """The runs of a point that had one subject on one rig. ``run_id`` is one of them: its fingerprint has both.

    ``rates`` are of its runs, in the unit of the point, in the order of their repetitions.
    """

    subject_key: str
    rig_key: str
    run_id: str
    rates: tuple[float, ...]

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__} | {"rates": list(self.rates)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Share":
        rates = tuple(float(rate) for rate in data["rates"])
        return cls(str(data["subject_key"]), str(data["rig_key"]), str(data["run_id"]), rates)


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

    def to_json(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return plain | {
            "throughput": self.throughput.to_json() if self.throughput else None,
            "grade": self.grade.value,
            "reasons": [reason.to_json() for reason in self.reasons],
            "shares": [share.to_json() for share in self.shares],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Point":
        fields: dict[str, Any] = {name: data[name] for name in cls.__dataclass_fields__}
        return cls(
            **fields
            | {
                "at": float(data["at"]),
                "throughput": Measurement.from_json(data["throughput"]) if data["throughput"] else None,
                "grade": Grade(data["grade"]),
                "reasons": tuple(Reason.from_json(reason) for reason in data["reasons"]),
                "shares": tuple(Share.from_json(share) for share in data["shares"]),
            }
        )


@dataclass(frozen=True)
class StoredSeries:
    """A series in a list: its key, its workload as the fingerprint has it, and its points, of which the first and the
    last are of experiments that were made then."""

    key: str
    workload: Mapping[str, Any]
    n_points: int
    first_at: float
    last_at: float


@dataclass(frozen=True)
class StoredPoint:
    """A cell that belongs to a series. ``kept`` is the point that was computed of it, None where there is none or where
    more of its runs have ended since; ``stamp`` says of which runs it is to be kept now."""

    experiment_id: str
    experiment_name: str
    cell_id: str
    cell_key: str
    workload_key: str
    created_at: float
    stamp: str
    kept: Point | None


class HistoryStore(Protocol):
    """What the store knows of series."""

    def series(
        self, wanted: SeriesFilter | None = None, *, limit: int = 50, cursor: str | None = None
    ) -> Page[StoredSeries]:
        """Series, that of the newest experiment first.

        Raises:
            InvalidRequest: the cursor is not one of ours.
        """

    def points(self, series: str, version: str, limit: int) -> Sequence[StoredPoint]:
        """The newest ``limit`` points of the series of that key, oldest first: also cells of its plans of which nobody
        knows on which devices they would have run. ``version``: of how points are computed; others are not kept."""

    def points_of_finished_cell(self, experiment_id: str, cell_key: str, version: str) -> Sequence[StoredPoint]:
        """The points that a cell has when its last run has ended, none of them kept; none while a run is left."""

    def stored_cells(self, cell_ids: Sequence[str]) -> tuple[Sequence[StoredCell], Sequence[Damaged]]:
        """(these cells with their runs, what of these cannot be read)."""

    def keep_points(self, kept: Sequence[tuple[StoredPoint, Point]]) -> None:
        """Keep what was computed of cells, each for the runs that its stamp tells of."""

    def fingerprints(self, run_ids: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        """Run -> its fingerprint, of those that have one that can be read."""
