"""The part of ``store.SqlStore`` that holds series: ``orchestrator.domain.around.history.HistoryStore``."""

from orchestrator.db.connection.databases import Database
from orchestrator.db.connection.verbs import reads, writes
from orchestrator.db.history import imported_points as imported_rows
from orchestrator.db.history import points as point_rows


class HistoryPart:
    """Its methods over ``database``."""

    database: Database

    series = reads(point_rows.page)
    points = reads(point_rows.of_series)
    stored_cells = reads(point_rows.stored_cells)
    fingerprints = reads(point_rows.fingerprints)

    add_imported = writes(imported_rows.add)
    imported = reads(imported_rows.page)
    owner_of_imported = reads(imported_rows.owner_of)
    remove_imported = writes(imported_rows.remove)
