"""The event logs of attempts: entries by (attempt, node, seq), stored once however often they are sent."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, func, select, text

from orchestrator.db.connection.among import among
from orchestrator.db.connection.errors import is_foreign_key_violation
from orchestrator.db.connection.statements import Insert
from orchestrator.db.reading import rows
from orchestrator.db.reading.rows import bounded, to_text
from orchestrator.db.tables.schema import attempt, entry
from orchestrator.domain.runs.log import Entry
from orchestrator.domain.words.errors import NotFound
from workers.trainer.protocol import check_event

EntryRow = tuple[str, str, int, str, str]
INSERT = Insert(entry, "attempt_id", "node", "seq", "kind", "body", unless_same=("attempt_id", "node", "seq"))

# One look into the index for each node and one for its last entry; a plain GROUP BY would walk the whole log.
_LAST_SEQS = text("""
WITH RECURSIVE nodes (node) AS (
    SELECT (SELECT min(node) FROM entry WHERE attempt_id = :attempt_id)
    UNION ALL
    SELECT (SELECT min(node) FROM entry WHERE attempt_id = :attempt_id AND node > nodes.node)
    FROM nodes WHERE nodes.node IS NOT NULL
)
SELECT node, (SELECT max(seq) FROM entry WHERE attempt_id = :attempt_id AND entry.node = nodes.node)
FROM nodes WHERE node IS NOT NULL
""")


def prepare(attempt_id: str, node: str, entries: Sequence[Entry]) -> list[EntryRow]:
    """The rows of entries, made by the caller's thread. The node is a column: it is not repeated in the body."""
    bodies = ({key: one[key] for key in one if key != "node"} if "node" in one else one for one in entries)
    return [(attempt_id, node, body["seq"], body["kind"], to_text(body)) for body in bodies]


def append(connection: Connection, attempt_id: str, node: str, new: Sequence[EntryRow]) -> int:
    """Insert those that are not there yet; the last seq stored for the node (0: none).

    Raises:
        NotFound: there is no such attempt.
    """
    try:
        INSERT.many(connection, new)
    except Exception as error:
        if is_foreign_key_violation(error):
            raise NotFound("attempt", attempt_id) from error
        raise
    newest = select(func.max(entry.c.seq)).where(entry.c.attempt_id == attempt_id, entry.c.node == node)
    return connection.execute(newest).scalar_one() or 0


def last_seqs(connection: Connection, attempt_id: str) -> Mapping[str, int]:
    seqs: dict[str, int] = dict(connection.execute(_LAST_SEQS, {"attempt_id": attempt_id}).all())
    if not seqs:
        _must_exist(connection, attempt_id)
    return seqs


def entries(
    connection: Connection,
    attempt_id: str,
    *,
    node: str | None = None,
    kinds: Sequence[str] | None = None,
    after: int = 0,
    limit: int | None = None,
) -> list[dict[str, Any]]:
    query = select(entry).where(entry.c.attempt_id == attempt_id)
    if node is not None:
        query = query.where(entry.c.node == node)
    if kinds is not None:
        query = query.where(among(entry.c.kind, kinds))
    if after > 0:
        query = query.where(entry.c.seq > bounded(after))
    if limit is not None:
        query = query.limit(bounded(max(limit, 0)))
    found = connection.execute(query.order_by(entry.c.node, entry.c.seq)).all()
    if not found:
        _must_exist(connection, attempt_id)
    return [_entry(row) for row in found]


def _entry(row: rows.AnyRow) -> dict[str, Any]:
    """An entry as it came; of one that is no JSON object any more what its row says, so that others can be read."""
    told = {"node": row.node, "seq": row.seq, "kind": row.kind}
    try:
        return dict(json.loads(row.body)) | told
    except (ValueError, TypeError, RecursionError):
        return told


def checked(row: rows.AnyRow) -> None:
    """Look whether the entry of a row (with its ``experiment_id``) can be read.

    Raises:
        DamagedRow: it cannot.
    """
    identifier = f"{row.attempt_id}:{row.node}:{row.seq}"
    rows.read("entry", identifier, row.experiment_id, lambda: check_event(dict(json.loads(row.body))))


def _must_exist(connection: Connection, attempt_id: str) -> None:
    if connection.execute(select(attempt.c.id).where(attempt.c.id == attempt_id)).one_or_none() is None:
        raise NotFound("attempt", attempt_id)
