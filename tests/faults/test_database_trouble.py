"""The database away, or its disk full, under a running service: a clear error, and it comes back by itself."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.domain.asked.placement import LEAST_FREE_BYTES
from tests.contract.postgresql_server import PostgresqlServer
from tests.faults.test_bad_luck import sleep
from tests.support.service import Service, status_of, until

pytest_plugins = ["tests.contract.store_servers"]

CONTENT = b"\0" * (1 << 16)


def refusal(service: Service, spec: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    return status_of(lambda: service.submit(spec))


def test_while_postgresql_is_away_nothing_is_acknowledged_and_then_all_goes_on(
    tmp_path: Path, postgresql: PostgresqlServer, postgresql_url: str
) -> None:
    service = Service(tmp_path / "data", TBD_CLUSTER="local", TBD_DATABASE_URL=postgresql_url).start()
    try:
        # All its steps take 4 s, and span the time without a database.
        slow = sleep(max_steps=2000, min_measure_s=60, options={"step_time_s": 0.002, "noise_ratio": 0.5})
        running = service.submit(slow)
        until(lambda: service.runs(running)[0]["state"] == "running")
        postgresql.stop()
        try:
            status, problem = refusal(service, sleep(name="refused"))
            assert status == 503
            assert problem["type"] == "urn:tbd:problem:database-unavailable"
            assert service.call("GET", "/healthz")["status"] == "ok"
            assert status_of(lambda: service.call("GET", "/readyz"))[0] == 503
        finally:
            postgresql.start()
        until(lambda: _submitted(service, sleep(name="later")))
        (run,) = service.wait(running)
        assert run["state"] == "completed"
        assert len(run["attempts"]) == 1
        names = [experiment["name"] for experiment in service.all("/api/v1/experiments")]
        assert "refused" not in names
        assert names.count("later") == 1
    finally:
        service.stop()


def _submitted(service: Service, spec: dict[str, Any]) -> str | None:
    try:
        return service.submit(spec)
    except OSError:  # HTTPError is one
        return None


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 128 MiB: room enough for a run, when it is empty."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a file system")
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=128m", "tbd-test", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("file systems cannot be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.after_change
def test_while_the_disk_is_full_nothing_is_acknowledged_and_then_all_goes_on(small_disk: Path) -> None:
    service = Service(small_disk / "data", TBD_CLUSTER="local", TBD_LOCK_DIR=str(small_disk.parent / "locks")).start()
    try:
        before = service.submit(sleep(name="before", nodes={"names": ["nowhere"]}))
        filler = small_disk / "filler"
        _fill(filler)
        large = sleep(name="refused", nodes={"names": ["nowhere"]}, repeats=500, max_repeats=500)
        status, problem = until(lambda: _refused(service, large))
        assert (status, problem["type"]) == (507, "urn:tbd:problem:database-full")
        assert "full" in problem["detail"]
        assert service.call("GET", f"/api/v1/experiments/{before}")["state"] == "active"
        filler.unlink()
        until(lambda: _submitted(service, sleep(name="later", nodes={"names": ["nowhere"]})))
        assert service.run_one(sleep(), poll_s=0.1)["state"] == "completed"
    finally:
        service.stop()


@pytest.mark.after_change
def test_a_run_waits_while_the_disk_of_its_node_has_no_room_and_then_goes_on(small_disk: Path) -> None:
    service = Service(small_disk / "data", TBD_CLUSTER="local", TBD_LOCK_DIR=str(small_disk.parent / "locks"))
    filler = small_disk / "filler"
    with open(filler, "wb") as file:  # the database has room, an attempt has not
        os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(small_disk).free - LEAST_FREE_BYTES // 2)
    service.start()
    try:
        experiment = service.submit(sleep())
        waiting = until(lambda: _reason(service, experiment, "waits for room on disk: node "))
        assert f"MiB free in {small_disk}/" in waiting
        filler.unlink()
        (run,) = service.wait(experiment)
        assert (run["state"], len(run["attempts"])) == ("completed", 1)
    finally:
        service.stop()


def _reason(service: Service, experiment: str, begins: str) -> str | None:
    """Why its run waits, once that begins so: before its node has answered, a run waits for that."""
    reason: str = service.runs(experiment)[0]["reason"] or ""
    return reason if reason.startswith(begins) else None


def _fill(path: Path) -> None:
    """Write until there is no room left."""
    with open(path, "wb", buffering=0) as file:
        while shutil.disk_usage(path.parent).free:
            try:
                file.write(CONTENT)
            except OSError:
                break


def _refused(service: Service, spec: dict[str, Any]) -> tuple[int, dict[str, Any]] | None:
    """The refusal; None as long as what SQLite has reserved takes what is sent."""
    try:
        return refusal(service, spec)
    except AssertionError:
        return None
