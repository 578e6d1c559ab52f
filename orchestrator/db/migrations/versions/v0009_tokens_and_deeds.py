"""Tokens, and who did what. Everybody may look at everything: cells are found without their owner.

Revision: 0009, after 0008.
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
# index of ``cell`` -> its columns, without the owner with which it began
CELLS = {
    "ix_cell_model": ["model", "created_at", "id", "framework", "device_models"],
    "ix_cell_framework": ["framework", "created_at", "id", "device_models"],
}


def upgrade() -> None:
    op.create_table(
        "token",
        sa.Column("id", KEY, primary_key=True),
        sa.Column("name", KEY, nullable=False),
        sa.Column("owner", KEY, nullable=False),
        sa.Column("scope", KEY, nullable=False),
        sa.Column("secret_sha256", KEY, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("expires_at", sa.Double),
        sa.Column("revoked_at", sa.Double),
        sa.Column("last_used_at", sa.Double),
    )
    op.create_index("ix_token_created", "token", ["created_at", "id"])
    op.create_table(
        "deed",
        sa.Column("id", KEY, primary_key=True),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("who", KEY, nullable=False),
        sa.Column("token_id", KEY),
        sa.Column("address", KEY),
        sa.Column("action", KEY, nullable=False),
        sa.Column("target", KEY, nullable=False),
    )
    op.create_index("ix_deed_created", "deed", ["created_at", "id"])
    op.create_index("ix_deed_who", "deed", ["who", "created_at", "id"])
    op.create_index("ix_deed_target", "deed", ["target", "created_at", "id"])
    op.create_index("ix_cell_created", "cell", ["created_at", "id", "device_models"])
    for name, columns in CELLS.items():
        op.drop_index(name, "cell")
        op.create_index(name, "cell", columns)


def downgrade() -> None:
    for name, columns in CELLS.items():
        op.drop_index(name, "cell")
        op.create_index(name, "cell", ["owner", *columns])
    op.drop_index("ix_cell_created", "cell")
    op.drop_table("deed")
    op.drop_table("token")
