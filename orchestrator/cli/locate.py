"""Which server a command talks to."""

import os
from pathlib import Path

from orchestrator.cli.client import Client
from orchestrator.cli.exits import UNREACHABLE, CommandError

# The same default as in ``orchestrator.settings``, which the quick commands do not import; a test holds them equal.
DEFAULT_DATA_DIR = "~/.local/share/tbd"


def data_dir() -> Path:
    """The data directory that the settings name."""
    return Path(os.environ.get("TBD_DATA_DIR") or DEFAULT_DATA_DIR).expanduser().absolute()


def find_server() -> str | None:
    """TBD_SERVER, else the URL of the server that owns the data directory, or None."""
    named = os.environ.get("TBD_SERVER")
    if named:
        return named
    from orchestrator.data_directory import server_of

    found = server_of(data_dir())
    return found["url"] if found else None


def connect() -> Client:
    """A client of the server that there is.

    Raises:
        CommandError: there is none.
    """
    url = find_server()
    if url is None:
        raise CommandError(
            f"there is no server: TBD_SERVER is not set and none owns {data_dir()}. Start one with: tbd serve",
            UNREACHABLE,
        )
    return Client(url)
