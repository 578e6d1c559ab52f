"""The database adapter: ``store.SqlStore`` keeps ``orchestrator.domain.ports.Store`` on SQLite and on PostgreSQL."""
