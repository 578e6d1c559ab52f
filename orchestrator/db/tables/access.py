"""The tables of tokens and deeds. Rows of both stay: that there ever was a token closes the door for good, and the
trail is of use only where nothing goes from it."""

from sqlalchemy import Column, Double, Index, Table

from orchestrator.db.tables.metadata import Key, metadata

# Of the secret only its SHA-256 is here (``domain.access.digest``).
token = Table(
    "token",
    metadata,
    Column("id", Key, primary_key=True),
    Column("name", Key, nullable=False),
    Column("owner", Key, nullable=False),
    Column("scope", Key, nullable=False),
    Column("secret_sha256", Key, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("expires_at", Double),
    Column("revoked_at", Double),
    Column("last_used_at", Double),
    Index("ix_token_created", "created_at", "id"),
)

# What was done, by whom. It names experiments, nodes and tokens without hanging on them: it outlives them.
deed = Table(
    "deed",
    metadata,
    Column("id", Key, primary_key=True),
    Column("created_at", Double, nullable=False),
    Column("who", Key, nullable=False),
    Column("token_id", Key),
    Column("address", Key),
    Column("action", Key, nullable=False),
    Column("target", Key, nullable=False),
    Index("ix_deed_created", "created_at", "id"),
    Index("ix_deed_who", "who", "created_at", "id"),
    Index("ix_deed_target", "target", "created_at", "id"),
)
