"""The tables of tokens, sessions and deeds. Rows of tokens and deeds stay: that there ever was a token closes the door
for good, and the trail is of use only where nothing goes from it."""

from sqlalchemy import Column, Double, ForeignKey, Index, Table

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

# Browsers that came in by a token. Of their cookies' secrets only the SHA-256 is here.
session = Table(
    "session",
    metadata,
    Column("id", Key, primary_key=True),
    Column("token_id", Key, ForeignKey("token.id"), nullable=False),
    Column("secret_sha256", Key, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("expires_at", Double, nullable=False),
    Index("ix_session_expires", "expires_at"),
    Index("ix_session_token", "token_id", "created_at", "id"),
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
