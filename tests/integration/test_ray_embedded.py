"""The life of the embedded Ray: real Ray, real processes, ended by pid."""

import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.cluster import ray_embedded
from orchestrator.cluster.ray_cluster import RayCluster
from orchestrator.cluster.ray_embedded import EmbeddedRay
from orchestrator.cluster.records import in_session, read_record
from orchestrator.domain.asked.placement import NodeState
from orchestrator.domain.words.errors import ClusterUnavailable
from workers.node import processes
from workers.node.processes import ProcessId


def until(what: object, patience_s: float) -> None:
    deadline = time.monotonic() + patience_s
    while not what():  # type: ignore[operator]
        assert time.monotonic() < deadline, f"did not happen within {patience_s} s"
        time.sleep(0.1)


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[EmbeddedRay]:
    ray = EmbeddedRay(tmp_path, idle_exit_s=2.0)
    yield ray
    ray.stop()


def session_of(directory: Path) -> ProcessId:
    record = read_record(directory / "ray.json")
    assert record is not None
    return ProcessId(*record["session"])


@pytest.mark.after_change
def test_it_is_adopted_while_used_and_ends_itself_when_nobody_uses_it(tmp_path: Path, embedded: EmbeddedRay) -> None:
    address = embedded.ensure()
    session = session_of(tmp_path)
    record = read_record(tmp_path / "ray.json")
    assert record is not None
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600
    assert in_session(session)
    embedded.release()
    again = EmbeddedRay(tmp_path, idle_exit_s=2.0)
    assert again.ensure() == address
    time.sleep(4.0)  # longer than idle_exit_s: it is in use
    assert again.alive()
    again.release()
    until(lambda: not in_session(session), 20.0)
    until(lambda: not processes.alive(ProcessId(*record["watchdog"])), 10.0)
    assert not (tmp_path / "ray.json").exists()


@pytest.mark.after_change
def test_it_ends_although_its_directory_is_gone_by_order_and_by_itself(tmp_path: Path) -> None:
    ordered, left = (EmbeddedRay(tmp_path / name, idle_exit_s=900.0) for name in ("ordered", "left"))
    try:
        sessions = []
        for ray, name in ((ordered, "ordered"), (left, "left")):
            ray.ensure()
            sessions.append(session_of(tmp_path / name))
            shutil.rmtree(tmp_path / name)
            assert in_session(sessions[-1])
            if ray is ordered:
                ray.stop()
                assert not in_session(sessions[0])
        until(lambda: not in_session(sessions[1]), 20.0)
    finally:
        ordered.stop()
        left.stop()


def test_one_that_does_not_start_says_why_and_leaves_nothing(
    tmp_path: Path, embedded: EmbeddedRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_embedded, "OBJECT_STORE_BYTES", -5)
    with pytest.raises(ClusterUnavailable, match=r"(?s)did not start.*store") as raised:
        embedded.ensure()
    assert "status" in str(raised.value)
    assert not (tmp_path / "ray.json").exists()
    assert not [pid for pid in processes.pids() if str(tmp_path).encode() in _command_line(pid)]


def test_a_start_that_is_interrupted_leaves_nothing(
    tmp_path: Path, embedded: EmbeddedRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise SystemExit(0)  # as SIGTERM does in a server

    monkeypatch.setattr(EmbeddedRay, "_keep_watched", interrupted)
    with pytest.raises(SystemExit):
        embedded.ensure()
    assert not (tmp_path / "ray.json").exists()
    assert not [pid for pid in processes.pids() if str(tmp_path).encode() in _command_line(pid)]


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.after_change
def test_a_ray_that_dies_is_started_anew_and_the_server_lives_on(tmp_path: Path) -> None:
    cluster = RayCluster(None, tmp_path, fence_s=20.0, idle_exit_s=60.0)
    try:
        first = session_of(tmp_path)
        record = read_record(tmp_path / "ray.json")
        assert record is not None
        for pid, _ in record["core"]:
            os.kill(pid, signal.SIGKILL)
        until(lambda: read_record(tmp_path / "ray.json") and session_of(tmp_path) != first, 60.0)
        until(lambda: [node.state for node in cluster.nodes()] == [NodeState.AVAILABLE], 60.0)
        assert not in_session(first)
    finally:
        cluster.shut_down(end_runs=True)
