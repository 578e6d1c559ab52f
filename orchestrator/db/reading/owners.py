"""Whose experiments a reader sees: everybody's, but none that is half imported or half removed."""

from sqlalchemy import ColumnElement

from orchestrator.db.tables.schema import experiment
from orchestrator.domain.around.access import HIDDEN


def seen(owner: str | None) -> ColumnElement[bool]:
    """Of ``experiment``: those of ``owner``, or (None) of anybody."""
    return experiment.c.owner.not_in(HIDDEN) if owner is None else experiment.c.owner == owner
