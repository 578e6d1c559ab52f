"""What a label is on. Pages of its runs, newest first, are merged from those of its experiments, of which no more are
read than may have a run on the page: ``label.newest_run_at`` says where to begin and where to stop."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, Select, select, tuple_

from orchestrator.db.connection import cursors
from orchestrator.db.reading import owners, paging
from orchestrator.db.reading.rows import AnyRow, bounded, searchable
from orchestrator.db.tables.schema import experiment, label, run


def page(
    connection: Connection, wanted: tuple[str, str], owner: str | None, limit: int, cursor: str | None
) -> tuple[list[AnyRow], str | None]:
    """As ``paging.page``: the runs that follow ``cursor``, and the cursor of the next page or None."""
    limit = bounded(max(limit, 1))
    before = None if cursor is None else cursors.decode(cursor)[0]
    best: list[AnyRow] = []
    for one in _newest_first(connection, _labelled(wanted, owner, before), limit + 1):
        if len(best) > limit and one.newest_run_at < best[limit].created_at:
            break
        theirs = select(run).where(run.c.experiment_id == one.experiment_id)
        found, _ = paging.page(connection, theirs, run, limit + 1, cursor)
        best = sorted([*best, *found], key=lambda row: (row.created_at, row.id), reverse=True)[: limit + 1]
    return (best, None) if len(best) <= limit else (best[:limit], paging.after(best[limit - 1]))


def experiments(wanted: tuple[str, str]) -> Select[tuple[str]]:
    """The ids of the experiments with a label."""
    name, value = map(searchable, wanted)
    return select(label.c.experiment_id).where(label.c.name == name, label.c.value == value)


def _labelled(wanted: tuple[str, str], owner: str | None, before: float | None) -> Select[Any]:
    """The experiments that may have runs from ``before``: no run is older than its experiment."""
    name, value = map(searchable, wanted)
    query = select(label.c.newest_run_at, label.c.experiment_id).where(label.c.name == name, label.c.value == value)
    # Not a join: it would let SQLite begin with the experiments, and sort them all.
    suits = [experiment.c.id == label.c.experiment_id, owners.seen(owner)]
    if before is not None:
        suits.append(experiment.c.created_at <= before)
    return query.where(select(experiment.c.id).where(*suits).exists())


def _newest_first(connection: Connection, query: Select[Any], many: int) -> Iterator[AnyRow]:
    """The experiments by their newest runs, ``many`` at a time."""
    key = (label.c.newest_run_at, label.c.experiment_id)
    query = query.order_by(*(column.desc() for column in key)).limit(many)
    found = list(connection.execute(query))
    while found:
        yield from found
        if len(found) < many:
            return
        last = found[-1]
        found = list(connection.execute(query.where(tuple_(*key) < (last.newest_run_at, last.experiment_id))))
