"""The part of ``store.SqlStore`` that holds series: ``orchestrator.domain.around.history.HistoryStore``."""

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.db.connection.databases import Database
from orchestrator.db.history import points
from orchestrator.domain.around.history import Point, StoredPoint, StoredSeries
from orchestrator.domain.runs.filters import SeriesFilter
from orchestrator.domain.runs.stored import Page, StoredCell
from orchestrator.domain.words.errors import Damaged


class HistoryPart:
    """Its methods over ``database``."""

    database: Database

    def series(
        self, wanted: SeriesFilter | None = None, *, limit: int = 50, cursor: str | None = None
    ) -> Page[StoredSeries]:
        return self.database.read(lambda connection: points.page(connection, wanted or SeriesFilter(), limit, cursor))

    def points(self, series: str, version: str, limit: int) -> Sequence[StoredPoint]:
        return self.database.read(lambda connection: points.of_series(connection, series, version, limit))

    def points_of_finished_cell(self, experiment_id: str, cell_key: str, version: str) -> Sequence[StoredPoint]:
        return self.database.read(
            lambda connection: points.of_finished_cell(connection, experiment_id, cell_key, version)
        )

    def stored_cells(self, cell_ids: Sequence[str]) -> tuple[Sequence[StoredCell], Sequence[Damaged]]:
        return self.database.read(lambda connection: points.stored_cells(connection, cell_ids))

    def keep_points(self, kept: Sequence[tuple[StoredPoint, Point]]) -> None:
        if kept:
            self.database.write(lambda connection: points.keep(connection, kept))

    def fingerprints(self, run_ids: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        return self.database.read(lambda connection: points.fingerprints(connection, run_ids))
