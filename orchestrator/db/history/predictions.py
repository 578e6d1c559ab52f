"""Predictions: their rows. What the functions promise stands in ``domain.around.predictions``."""

from collections.abc import Sequence

from sqlalchemy import Connection, insert, select

from orchestrator.db.reading import paging, rows
from orchestrator.db.tables.predictions import prediction
from orchestrator.domain.around.predictions import Prediction, PredictionFilter, Told
from orchestrator.domain.runs.stored import Page


def add(connection: Connection, new: Sequence[Prediction]) -> None:
    found = [
        {
            "id": one.id,
            "owner": one.owner,
            "created_at": one.created_at,
            "model": one.plan.model,
            "framework": one.plan.framework,
            "strategy": one.plan.strategy,
            "plan": rows.to_text(one.plan.to_json()),
            "told": rows.to_text(one.told.to_json()),
        }
        for one in new
    ]
    if found:
        connection.execute(insert(prediction), found)


def page(
    connection: Connection, wanted: PredictionFilter | None = None, *, limit: int = 50, cursor: str | None = None
) -> Page[Prediction]:
    asked = paging.agreeing(
        select(prediction), prediction, wanted or PredictionFilter(), "owner", "model", "framework", "strategy"
    )
    found, next_cursor = paging.page(connection, asked, prediction, limit, cursor)
    made, damaged = rows.sorted_out(found, read)
    return Page(made, next_cursor, damaged)


def read(row: rows.AnyRow) -> Prediction:
    """Raises DamagedRow."""

    def made() -> Prediction:
        told = Told.from_json(rows.loaded(row.told))
        return Prediction(row.id, row.owner, rows.time_of(row.created_at), rows.plan_of(row.plan), told)

    return rows.read("prediction", row.id, None, made)
