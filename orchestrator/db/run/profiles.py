"""The profiles of runs, each as a whole."""

import json
from typing import Any

from sqlalchemy import Connection, insert, select

from orchestrator.db.reading import rows
from orchestrator.db.tables.schema import profile
from orchestrator.domain.value.profile import Profiles


def add(connection: Connection, run_id: str, found: Profiles) -> None:
    if found:
        text = rows.to_text(_storable(found.to_json()))
        connection.execute(insert(profile), {"run_id": run_id, "found": text})


def _storable(value: Any) -> Any:
    """A framework may call its kernels what it likes; what is no text is replaced."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode().replace("\0", "?")
    if isinstance(value, dict):
        return {name: _storable(part) for name, part in value.items()}
    return [_storable(part) for part in value] if isinstance(value, list) else value


def read(connection: Connection, run_id: str) -> Profiles:
    """See ``domain.ports.Store.profiles``."""
    row = connection.execute(select(profile).where(profile.c.run_id == run_id)).one_or_none()
    if row is None:
        return Profiles()
    return rows.read("profile", run_id, None, lambda: Profiles.from_json(json.loads(row.found)))
