"""Finds experiments and runs by what a person calls them: a name, or the beginning of an id."""

from collections.abc import Iterator

from sqlalchemy import ColumnElement, Connection, and_, select

from orchestrator.db.reading import owners
from orchestrator.db.reading.rows import bounded
from orchestrator.db.tables.schema import experiment, run
from orchestrator.domain.runs.stored import Found

# Ids are made of a-z, 0-9 and _, and compared byte by byte: what begins with a text lies between it and it with this.
_AFTER_ALL = "~"


def find(connection: Connection, text: str, *, limit: int = 50) -> list[Found]:
    """Three look-ups, each by an index: what it costs depends on ``limit`` alone."""
    limit = bounded(max(limit, 1))
    named = list(_experiments(connection, experiment.c.name == text, limit))
    known = {one.id for one in named}
    begun = [
        *_experiments(connection, _begins(experiment.c.id, "exp_", text), limit),
        *_runs(connection, _begins(run.c.id, "run_", text), limit),
    ]
    begun.sort(key=lambda one: one.created_at, reverse=True)
    return [*named, *(one for one in begun if one.id not in known)][:limit]


def _begins(column: ColumnElement[str], prefix: str, text: str) -> ColumnElement[bool]:
    begin = text if text.startswith(("exp_", "run_")) else prefix + text
    return and_(column >= begin, column < begin + _AFTER_ALL)


def _experiments(connection: Connection, which: ColumnElement[bool], limit: int) -> Iterator[Found]:
    columns = (experiment.c.id, experiment.c.name, experiment.c.state, experiment.c.created_at)
    query = select(*columns).where(which, owners.seen(None))
    query = query.order_by(experiment.c.created_at.desc(), experiment.c.id.desc()).limit(limit)
    for identifier, name, state, at in connection.execute(query):
        yield Found("experiment", identifier, identifier, name, state, at)


def _runs(connection: Connection, which: ColumnElement[bool], limit: int) -> Iterator[Found]:
    columns = (run.c.id, run.c.experiment_id, experiment.c.name, run.c.state, run.c.created_at)
    query = select(*columns).join(experiment, run.c.experiment_id == experiment.c.id)
    query = query.where(which, owners.seen(None))
    for row in connection.execute(query.order_by(run.c.id.desc()).limit(limit)):
        yield Found("run", *row)
