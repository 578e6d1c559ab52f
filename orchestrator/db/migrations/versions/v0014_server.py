"""Who serves.

Revision: 0014, after 0013.
"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
COUNT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "server",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("term", COUNT, nullable=False),
        sa.Column("url", KEY),
        sa.Column("host", KEY),
        sa.Column("pid", COUNT),
        sa.Column("since", sa.Double),
    )
    op.execute("INSERT INTO server (id, term) VALUES (1, 0)")


def downgrade() -> None:
    op.drop_table("server")
