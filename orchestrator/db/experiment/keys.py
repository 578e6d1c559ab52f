"""Idempotency keys: who used which, with what, and the experiment that was stored for it where one was."""

from typing import Any

from sqlalchemy import Connection, Row, select

from orchestrator.db.connection.statements import Insert
from orchestrator.db.tables.schema import idempotency
from orchestrator.domain.runs.stored import Idempotency
from orchestrator.domain.words.errors import IdempotencyMismatch

_INSERT = Insert(idempotency, "owner", "key", "body_sha256", "experiment_id", unless_same=("owner", "key"))


def take(connection: Connection, key: Idempotency, experiment_id: str | None) -> bool:
    """Note that ``key`` is used; False when it was used before."""
    return _INSERT.one(connection, (key.owner, key.key, key.body_sha256, experiment_id)) == 1


def used(connection: Connection, key: Idempotency) -> bool:
    """Whether ``key`` was used before, for the same request.

    Raises:
        IdempotencyMismatch: it was used for another one.
    """
    return _checked(connection, key) is not None


def experiment_id(connection: Connection, key: Idempotency) -> str:
    """The experiment that was stored when ``key``, which is known, was used.

    Raises:
        IdempotencyMismatch: it was used for another request.
    """
    found = _checked(connection, key)
    assert found is not None
    return str(found.experiment_id)


def _checked(connection: Connection, key: Idempotency) -> Row[Any, Any] | None:
    query = select(idempotency.c.body_sha256, idempotency.c.experiment_id).where(
        idempotency.c.owner == key.owner, idempotency.c.key == key.key
    )
    found = connection.execute(query).one_or_none()
    if found is not None and found.body_sha256 != key.body_sha256:
        raise IdempotencyMismatch(
            f"the idempotency key {key.key!r} was used before with another request or another body: take a new one"
        )
    return found
