"""The server is killed, or stopped in order, in mid-run: nothing acknowledged is lost, nothing happens twice."""

import signal
import sqlite3
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from http.client import HTTPException
from pathlib import Path

import psutil
import pytest

from bench import ingest
from orchestrator.db.together.imported import IMPORTING
from tests.faults.ray_apart import ROOT, UNIT, ray_apart
from tests.faults.test_bad_luck import sleep
from tests.support import processes
from tests.support.service import Service, until
from workers.node.port_choice import free_port

MARK = f"mark-{uuid.uuid4()}"


class Kept(Service):
    """``tbd serve`` as its unit keeps it, for a Ray that somebody else started. ``stop`` and ``start`` are those of
    ``systemctl restart``."""

    def start(self, *, end_runs: bool = False) -> "Kept":
        assert not end_runs
        places = [str(UNIT / "tbd.service"), str(self.data_dir.parent), str(Path(sys.executable).parent)]
        command = [sys.executable, "-m", "tests.cluster.unit_keeper", *places]
        self._process = subprocess.Popen(command, env=self._environment, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        self.url = f"http://127.0.0.1:{self._environment['TBD_PORT']}"
        until(self._is_ready, 90, 0.2)
        return self

    def _is_ready(self) -> bool:
        try:
            return bool(self.call("GET", "/readyz")["nodes"])
        except OSError:
            return False


@pytest.fixture
def apart(tmp_path: Path) -> Iterator[Kept]:
    """A Ray apart, and a service for it that does not run yet."""
    own = {name: str(tmp_path / name) for name in ("TBD_DATA_DIR", "TBD_LOCK_DIR")}
    own |= {"TBD_PORT": str(free_port()), "TEST_MARK": MARK}
    with ray_apart(tmp_path, **own) as around:
        yield Kept(Path(own["TBD_DATA_DIR"]), **around)


@pytest.fixture
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Service:
    """One that does not run yet, on each kind of cluster; ``apart``: of a Ray that somebody else started."""
    if request.param == "apart":
        return request.getfixturevalue("apart")  # type: ignore[no-any-return]
    return Service(tmp_path / "data", TBD_CLUSTER=request.param, TEST_MARK=MARK)


# With agents of its own it is killed in tests/faults/test_kills.py.
ENDS = [("local", signal.SIGTERM), ("ray", signal.SIGKILL), ("ray", signal.SIGTERM), ("apart", signal.SIGTERM)]


@pytest.mark.parametrize(("service", "how"), ENDS, indirect=["service"])
@pytest.mark.after_change
def test_a_run_goes_on_while_the_server_is_away_and_is_finished_exactly_once(
    service: Service, how: signal.Signals
) -> None:
    service.start(end_runs=False)
    try:
        # All steps of a run take 4 s.
        slow = sleep(max_steps=2000, min_measure_s=60, options={"step_time_s": 0.002}, repeats=2, max_repeats=2)
        experiment = service.submit(slow)
        running = until(lambda: [run for run in service.runs(experiment) if run["state"] == "running"])[0]["id"]
        until(lambda: service.call("GET", f"/api/v1/runs/{running}/intervals?limit=5")["items"])
        service.stop(how)
        assert processes.of_attempts(MARK), "the training goes on without the server"
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
    until(lambda: not processes.of_attempts(MARK))


@pytest.mark.after_change
def test_a_server_ends_before_its_unit_kills_it_where_the_head_of_its_ray_has_died(tmp_path: Path) -> None:
    with ray_apart(tmp_path) as around:
        del around["TBD_DATA_DIR"]
        service = Service(tmp_path / "data", **around).start(end_runs=True)
        until(lambda: service.call("GET", "/readyz")["nodes"], 90, 0.5)
        port = f"--gcs_server_port={around['TBD_RAY_ADDRESS'].rpartition(':')[2]}"
        (head,) = (one for one in psutil.process_iter() if port in command_line(one))
        head.kill()
        time.sleep(5.0)  # so that its calls to Ray hang
        asked = time.monotonic()
        # It cannot ask what may still run to end, and says so.
        assert service.stop() == 4
        assert time.monotonic() < asked + 45.0


def command_line(process: psutil.Process) -> list[str]:
    with suppress(psutil.Error):
        return process.cmdline()
    return []


def owners(database: Path) -> set[str]:
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
        return {owner for (owner,) in connection.execute("SELECT owner FROM experiment")}


@pytest.mark.after_change
def test_a_log_that_was_half_taken_in_is_gone_after_a_kill_and_may_come_again(tmp_path: Path) -> None:
    service = Service(tmp_path / "data", TBD_CLUSTER="local").start()
    database, log = tmp_path / "data" / "tbd.sqlite3", ingest.long_log(5_000, "half")
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
        assert len(service.all(f"/api/v1/runs/{run['id']}/intervals")) > 2000
    finally:
        service.stop()
