"""The server is killed with SIGKILL in mid-run: nothing acknowledged is lost, nothing happens twice."""

import signal
import sqlite3
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPException
from pathlib import Path

import pytest

from orchestrator.db.imported import IMPORTING
from tests.benchmarks import ingest
from tests.faults.test_bad_luck import sleep
from tests.support import processes
from tests.support.service import Service, until


@pytest.mark.parametrize("cluster", ["local", "ray"])
def test_a_run_goes_on_while_the_server_is_away_and_is_finished_exactly_once(tmp_path: Path, cluster: str) -> None:
    mark = f"mark-{uuid.uuid4()}"
    service = Service(tmp_path / "data", TBD_CLUSTER=cluster, TEST_MARK=mark).start()
    try:
        # All steps of a run take 4 s.
        slow = sleep(max_steps=2000, min_measure_s=60, options={"step_time_s": 0.002}, repeats=2, max_repeats=2)
        experiment = service.submit(slow)
        running = until(lambda: [run for run in service.runs(experiment) if run["state"] == "running"])[0]["id"]
        until(lambda: service.call("GET", f"/api/v1/runs/{running}/intervals?limit=5")["items"])
        service.stop(signal.SIGKILL)
        assert processes.of_attempts(mark), "the training goes on without the server"
        service.start()
        runs = service.wait(experiment, timeout_s=90)
        assert [run["state"] for run in runs] == ["completed", "completed"]
        adopted = next(run for run in runs if run["id"] == running)
        assert len(adopted["attempts"]) == 1
        intervals = service.all(f"/api/v1/runs/{running}/intervals")
        steps = [interval["first_step"] for interval in intervals]
        assert steps == sorted(set(steps)), "every interval is stored once"
        assert sum(interval["n"] for interval in intervals) == 2000
    finally:
        service.stop()
    until(lambda: not processes.of_attempts(mark))


def owners(database: Path) -> set[str]:
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
        return {owner for (owner,) in connection.execute("SELECT owner FROM experiment")}


def test_a_log_that_was_half_taken_in_is_gone_after_a_kill_and_may_come_again(tmp_path: Path) -> None:
    service = Service(tmp_path / "data", TBD_CLUSTER="local").start()
    database, log = tmp_path / "data" / "tbd.sqlite3", ingest.long_log(20_000, "half")
    with ThreadPoolExecutor(1) as client:
        sent = client.submit(ingest.take_in, service, log)
        until(lambda: IMPORTING in owners(database), poll_s=0.002)
        service.stop(signal.SIGKILL)
        assert isinstance(sent.exception(timeout=30), OSError | HTTPException)
    assert owners(database) == {IMPORTING}
    service.start()
    try:
        assert owners(database) == set()
        ingest.take_in(service, log)
        (experiment,) = service.call("GET", "/api/v1/experiments")["items"]
        (run,) = service.runs(experiment["id"])
        assert len(service.all(f"/api/v1/runs/{run['id']}/intervals")) > 9000
    finally:
        service.stop()


def test_what_was_acknowledged_before_a_kill_is_there_after_it(tmp_path: Path) -> None:
    service = Service(tmp_path / "data", TBD_CLUSTER="local").start()
    waiting = sleep(nodes={"names": ["nowhere"]})
    acknowledged = [service.submit(waiting | {"name": f"kept-{index}"}) for index in range(20)]
    service.stop(signal.SIGKILL)
    service.start()
    try:
        for experiment in acknowledged:
            (run,) = service.runs(experiment)
            assert run["state"] == "queued"
    finally:
        service.stop()
