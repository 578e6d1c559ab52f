"""A server that keeps readings for some days, over runs that ended longer ago."""

from pathlib import Path

import pytest

from tests.support.service import Service, until

SPEC = {"name": "old", "model": "sleep", "framework": "sleep", "per_device_batch_size": 1, "repeats": 1}


@pytest.mark.after_change
def test_a_server_removes_old_readings_and_what_needs_them_says_so(tmp_path: Path) -> None:
    service = Service(tmp_path / "data", TBD_CLUSTER="local").start()
    try:
        run = service.run_one(SPEC)
        path = f"/api/v1/runs/{run['id']}"
        assert service.call("GET", f"{path}/readings")["items"]
        assert service.call("GET", f"{path}/reanalysis")["reason"] is None
    finally:
        service.stop()
    service = Service(tmp_path / "data", TBD_CLUSTER="local", TBD_KEEP_READINGS_DAYS="0").start()
    try:
        why = until(lambda: service.call("GET", f"{path}/readings")["reason"])
        until(lambda: not service.call("GET", f"{path}/readings")["items"])
        assert service.call("GET", f"{path}/reanalysis")["reason"] == why
        assert service.call("GET", path)["throughput"] == run["throughput"]
        assert service.call("GET", f"{path}/intervals")["items"]
        assert service.call("GET", f"{path}/time-series")["items"]
    finally:
        service.stop()
