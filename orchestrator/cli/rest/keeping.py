"""Where finished logs go: to the server that there is, else into the data directory, whose owner this command then is.

Imported only by commands that have measured without a server.
"""

import os
import socket
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

from orchestrator.cli.exits import CommandError
from orchestrator.cli.printing import output
from orchestrator.cli.rest.client import Client
from orchestrator.cli.rest.locate import client_of, find_server
from orchestrator.domain.around.access import LOCAL, Actor, Scope
from orchestrator.domain.ports import Cluster
from orchestrator.domain.words.errors import DataDirectoryInUse, SettingsError, TbdError


def server() -> Client | None:
    """A client of the server that there is, once it has answered: a token that it refuses is told before anything is
    measured. None where there is none.

    Raises:
        CommandError: it cannot be reached, or does not let one in.
    """
    url = find_server()
    if url is None:
        return None
    client = client_of(url)
    client.get("/experiments", limit=1)
    return client


def keep(logs: Sequence[Path], name: str) -> tuple[Client, str]:
    """Have ``logs`` be an experiment called ``name``; a client that shows it, and its id.

    Raises:
        CommandError: they cannot be kept; the files are as they were.
    """
    with tempfile.TemporaryFile() as together:
        for number, log in enumerate(logs):
            together.write((b"\n" if number else b"") + log.read_bytes())
        client = server()
        if client is not None:
            return client, _sent(client, together, name)
        try:
            return _kept_here(together, name)
        except DataDirectoryInUse:  # a server has started meanwhile
            client = server()
            if client is None:
                raise CommandError("the data directory is in use, and no server of it answers") from None
            return client, _sent(client, together, name)
        except SettingsError as error:
            raise CommandError(str(error)) from None
        except TbdError as error:
            raise CommandError(f"the logs cannot be kept: {error}") from None


def _sent(client: Client, together: BinaryIO, name: str) -> str:
    together.seek(0)
    return str(client.post("/ingest", raw=together.read(), name=name)["experiment_id"])


def _kept_here(together: BinaryIO, name: str) -> tuple[Client, str]:
    from orchestrator.cli.rest.looking import LookingClient
    from orchestrator.db.opening import open_store, open_to_serve
    from orchestrator.domain.around.server import Server
    from orchestrator.serve.data_directory import DataDirectory
    from orchestrator.serve.settings import read_settings
    from orchestrator.services.clock import SystemClock
    from orchestrator.services.context import Context
    from orchestrator.services.facts.catalog import load_catalog
    from orchestrator.services.intake.import_log import import_log

    settings = read_settings()
    directory = DataDirectory(settings.data_dir).open()
    try:
        this = Server("a command that imports logs", socket.gethostname(), os.getpid(), time.time())
        opened = partial(open_to_serve, server=this, say=output.say)
        store = open_store(settings.database_url, settings.database_wait_s, output.say, open_now=opened)
        try:
            catalog = load_catalog(settings.suite_path)
            nobody = cast(Cluster, None)  # an import asks no node
            context = Context(store, nobody, catalog, SystemClock(), wake=lambda: None)
            run = import_log(context, together, Actor(LOCAL, Scope.SUBMIT), name)
        finally:
            store.close()
    finally:
        directory.close()
    return LookingClient(), run.experiment_id
