"""Until when a server leads, and what those that follow have to know of the nodes.

A server of the version before knows of no lease: the term goes on, so that it writes nothing any more and ends, and it
is given as long as a lease lasts to notice.

Revision: v0008, after v0007.
"""

import sqlalchemy as sa
from alembic import op

from orchestrator.db.tables.metadata import Key

revision = "v0008"
down_revision = "v0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("server", sa.Column("until", sa.Double))
    if op.get_bind().dialect.name == "postgresql":
        notices = "extract(epoch FROM clock_timestamp()) + 10"
        op.execute(f"UPDATE server SET term = term + 1, until = {notices} WHERE url IS NOT NULL")
    op.create_table(
        "known_node",
        sa.Column("name", Key, primary_key=True),
        sa.Column("told", sa.Text, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("known_node")
    op.drop_column("server", "until")
