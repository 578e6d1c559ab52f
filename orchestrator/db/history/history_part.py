"""The part of ``store.SqlStore`` that holds series: ``orchestrator.domain.around.history.HistoryStore``."""

from collections.abc import Sequence

from orchestrator.db.connection.databases import Database
from orchestrator.db.connection.verbs import reads
from orchestrator.db.history import points as point_rows
from orchestrator.domain.around.history import Point, StoredPoint


class HistoryPart:
    """Its methods over ``database``."""

    database: Database

    series = reads(point_rows.page)
    points = reads(point_rows.of_series)
    points_of_finished_cell = reads(point_rows.of_finished_cell)
    stored_cells = reads(point_rows.stored_cells)
    fingerprints = reads(point_rows.fingerprints)

    def keep_points(self, kept: Sequence[tuple[StoredPoint, Point]]) -> None:
        if kept:
            self.database.write(lambda connection: point_rows.keep(connection, kept))
