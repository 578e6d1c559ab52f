"""Agents of the local cluster when their data directory fails them: none is left that nobody would find again."""

import shutil
import socket
from pathlib import Path

import pytest

from orchestrator.cluster.agents import AgentUnreachable, Keeper
from orchestrator.cluster.local import AgentProcess, LocalCluster
from tests.contract.cluster_rigs import eventually
from workers.node import processes


def agents_of(directory: Path) -> list[int]:
    """Ids of living agents whose command line names ``directory``."""
    found = []
    for pid in processes.pids():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if "workers.node" in words and any(str(directory) in word for word in words):
            found.append(pid)
    return found


def test_an_agent_that_cannot_be_recorded_is_ended(tmp_path: Path) -> None:
    agent = AgentProcess(tmp_path / "node", "node-1", 20.0, 120.0)
    (tmp_path / "node" / "agent.json").mkdir(parents=True)  # where the record should stand: writing it fails
    for _ in range(2):
        with pytest.raises(AgentUnreachable, match="cannot be started"):
            agent.connect()
        assert agents_of(tmp_path) == []


def test_an_agent_whose_record_was_lost_is_ended_before_another_one_starts(tmp_path: Path) -> None:
    agent = AgentProcess(tmp_path / "node", "node-1", 20.0, 120.0)
    try:
        agent.connect()
        (tmp_path / "node" / "agent.json").unlink()
        agent.connect()
        assert len(agents_of(tmp_path)) == 1
    finally:
        agent.end()
    assert agents_of(tmp_path) == []


def test_a_stop_while_the_cluster_starts_ends_the_agents_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle = Keeper.settle

    def interrupted(keeper: Keeper, timeout_s: float) -> None:
        settle(keeper, timeout_s)
        raise SystemExit(0)  # as SIGTERM does in a server

    monkeypatch.setattr(Keeper, "settle", interrupted)
    with pytest.raises(SystemExit):
        LocalCluster(tmp_path, 20.0, 120.0)
    assert agents_of(tmp_path) == []
    found = AgentProcess(tmp_path / "nodes" / socket.gethostname(), socket.gethostname(), 20.0, 120.0)
    try:
        found.connect()  # by a server before: attempts may go on there
        with pytest.raises(SystemExit):
            LocalCluster(tmp_path, 20.0, 120.0)
        assert len(agents_of(tmp_path)) == 1
    finally:
        found.end()


def test_an_agent_ends_by_itself_when_its_directory_is_taken_away(tmp_path: Path) -> None:
    agent = AgentProcess(tmp_path / "node", "node-1", 20.0, 120.0)
    agent.connect()
    shutil.rmtree(tmp_path / "node")
    eventually(lambda: not agents_of(tmp_path))
    agent.end()
