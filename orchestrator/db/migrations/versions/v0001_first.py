"""The first schema, whole: the tables of ``schema.py`` and the two rows that are only ever rewritten.

Revision: v0001, after none.

It makes what ``schema.py`` says now; a new database is then given the newest revision
(``orchestrator.db.upgrade.admin``). So a later migration runs only on databases that hold something already, and never
on top of its own tables.
"""

from alembic import op

from orchestrator.db.tables.schema import metadata

revision = "v0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    metadata.create_all(op.get_bind())
    op.execute("INSERT INTO heartbeat (id, beats) VALUES (1, 0)")
    op.execute("INSERT INTO server (id, term) VALUES (1, 0)")


def downgrade() -> None:
    metadata.drop_all(op.get_bind())
