"""Which server a command talks to."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from orchestrator.cli.exits import UNREACHABLE, CommandError
from orchestrator.cli.printing import output
from orchestrator.cli.rest.client import Client

# The same default as in ``orchestrator.serve.settings``, which the quick commands do not import; a test holds them
# equal.
DEFAULT_DATA_DIR = "~/.local/share/tbd"
START_S = 60.0  # a server that brings up Ray on a busy machine took 20: a judgement
PAUSE_S = 0.1


def data_dir() -> Path:
    """The data directory that the settings name."""
    return Path(os.environ.get("TBD_DATA_DIR") or DEFAULT_DATA_DIR).expanduser().absolute()


def find_server() -> str | None:
    """TBD_SERVER, else the URL of the server that owns the data directory, or None. One that is starting is waited for.

    Raises:
        CommandError: it takes too long.
    """
    named = os.environ.get("TBD_SERVER")
    if named:
        return named
    from orchestrator.serve.data_directory import is_owned, server_of

    path = data_dir()
    found = server_of(path)
    if found is None and is_owned(path):
        output.say(f"a server is starting on {path}: waiting for it …")
        found = _once_it_listens(path)
    return _reachable(found, path) if found else None


def _reachable(found: dict[str, Any], path: Path) -> str:
    """The URL that the owner told, unless it is one of another machine's own."""
    from orchestrator.serve.data_directory import host_elsewhere

    host = host_elsewhere(found)
    if host is not None and urlsplit(found["url"]).hostname in ("127.0.0.1", "::1", "localhost"):
        raise CommandError(
            f"the server that owns {path} runs on another machine, {host}, where it told {found['url']}: set "
            "TBD_SERVER to its address, or give this command there",
            UNREACHABLE,
        )
    return str(found["url"])


def _once_it_listens(path: Path, pause: Callable[[float], None] = time.sleep) -> dict[str, Any] | None:
    """{url, pid} of the server that is starting, once it has told its address; None where it has ended instead.

    Raises:
        CommandError: it takes too long.
    """
    from orchestrator.serve.data_directory import is_owned, server_of

    for _ in range(round(START_S / PAUSE_S)):
        if found := server_of(path):
            return found
        if not is_owned(path):
            return None
        pause(PAUSE_S)
    raise CommandError(f"who owns {path} has told no address for {START_S:.0f} s: look at that server", UNREACHABLE)


def connect() -> Client:
    """A client of the server that there is.

    Raises:
        CommandError: there is none.
    """
    url = find_server()
    if url is None:
        raise no_server()
    return client_of(url)


def look(at: str = "") -> Client:
    """A client for a command that only looks: of the server that there is, else of the database without one. ``at``
    says, to a person, what is looked at then.

    Raises:
        CommandError: the server cannot be found or talked to; or what is there may not be read without it.
    """
    url = find_server()
    if url is not None:
        return client_of(url)
    from orchestrator.cli.rest.looking import LookingClient  # half a second, that nobody waits for who has a server

    place = "the database of TBD_DATABASE_URL" if os.environ.get("TBD_DATABASE_URL") else data_dir()
    return LookingClient(f"no server: {at or f'this is what {place} holds'}")


def no_server() -> CommandError:
    """For what cannot be done without one."""
    text = f"there is no server: TBD_SERVER is not set and none owns {data_dir()}. Start one with: tbd serve"
    return CommandError(text, UNREACHABLE)


def client_of(url: str) -> Client:
    """A client of the server at ``url``, with the token that the environment names.

    Raises:
        CommandError: the token cannot be read, or should not be sent there.
    """
    from orchestrator.cli.rest.credentials import token_for

    return Client(url, token_for(url))
