"""Logs that come at the same time are taken in one after the other, and keep nobody else waiting."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastapi.testclient import TestClient

from orchestrator.api.routers.intake import ingest
from orchestrator.domain.words.errors import Conflict
from tests.unit.api.api_rig import AS_LOG, Rig

SENT = 60  # more than the threads that serve requests


class Taking:
    """In the place of the import: waits until it may go on, and counts how many are there at once."""

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.now = self.most = self.taken = 0

    def __call__(self, *_: Any) -> Any:
        self.now += 1
        self.most = max(self.most, self.now)
        self.begun.set()
        self.go_on.wait(30)
        self.now -= 1
        self.taken += 1
        raise Conflict("taken")


@pytest.fixture
def served(rig: Rig) -> Iterator[TestClient]:
    """One event loop for all requests, as a server has it."""
    with TestClient(rig.app, "http://localhost") as http:
        yield http


def test_logs_are_taken_in_one_after_the_other_and_others_are_answered_meanwhile(
    served: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    taking = Taking()
    monkeypatch.setattr(ingest, "import_log", taking)
    with ThreadPoolExecutor(SENT) as clients:
        sent = [clients.submit(served.post, "/api/v1/ingest", content=b"{}", headers=AS_LOG) for _ in range(SENT)]
        try:
            assert taking.begun.wait(30)
            for _ in range(50):
                assert served.get("/api/v1/experiments").status_code == 200
        finally:
            taking.go_on.set()
        assert {one.result().status_code for one in sent} == {409}
    assert (taking.most, taking.taken) == (1, SENT)
