"""``tbd export`` where the database goes away in the middle of the file: nobody takes the half for the whole."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from orchestrator.cli.commands.analyse import export as command
from orchestrator.cli.main import main
from orchestrator.cli.rest.client import Client
from orchestrator.domain.words.errors import StoreUnavailable
from orchestrator.services.result import export
from tests.unit.api.api_rig import Rig

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def served(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """A client of the rig's application behind a real socket, which answers one cell at a time."""
    monkeypatch.setattr(export, "PART", 1)
    server = uvicorn.Server(uvicorn.Config(rig.app, port=0, log_level="critical"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    client = Client(f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}")
    monkeypatch.setattr(command, "look", lambda: client)
    yield client
    server.should_exit = True
    thread.join()


def test_a_file_that_breaks_off_is_a_failure_and_leaves_what_was_there(
    rig: Rig, served: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    rig.submit(seed=[1, 2, 3], repeats=1)
    file = tmp_path / "results.csv"
    assert main(["export", "-o", str(file)]) == 0
    before = file.read_bytes()
    assert before.count(b"\r\n") == 4
    cells = rig.store.cells

    def cells_once(*of: Any, cursor: str | None = None, **more: Any) -> Any:
        if cursor is not None:
            raise StoreUnavailable("the database is away")
        return cells(*of, cursor=cursor, **more)

    monkeypatch.setattr(rig.store, "cells", cells_once)
    capsys.readouterr()
    assert main(["export", "-o", str(file)]) == 1
    assert "broke off in the middle of the file" in capsys.readouterr().err
    assert file.read_bytes() == before
    assert [one.name for one in tmp_path.glob("results*")] == ["results.csv"]


def test_a_database_that_is_away_from_the_beginning_is_a_problem(
    rig: Rig, served: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def away(*of: Any, **more: Any) -> Any:
        raise StoreUnavailable("the database is away")

    monkeypatch.setattr(rig.store, "cells", away)
    assert main(["export", "-o", str(tmp_path / "x.csv")]) == 4
    assert "the database is away" in capsys.readouterr().err
    assert not list(tmp_path.glob("x.csv*"))
