"""What alembic runs to migrate: always on the connection that ``orchestrator.db.upgrade.admin`` hands in."""

from alembic import context

from orchestrator.db.tables.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
