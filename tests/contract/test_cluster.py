"""What every cluster promises (``orchestrator.domain.ports.Cluster``), held against both that there are."""

import math
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cluster.agents import AgentError, AgentUnreachable
from orchestrator.cluster.ray_cluster import RayHandle
from orchestrator.domain.asked.placement import Node, NodeState
from orchestrator.domain.ports import Cluster
from orchestrator.domain.words.errors import ClusterUnavailable, JobRefused, NodeFailed, NodeUnreachable, NotFound
from tests.contract.cluster_rigs import (
    PATIENCE_S,
    agent_of,
    available,
    dead,
    endless_job,
    eventually,
    first,
    follow,
    kill,
    make_cluster,
    server_process,
    sleep_job,
    trainer_of,
)
from workers.node import processes

BEYOND = 2**62  # a number that no entry of a log ever has: such a wait is for the end of the attempt


class Rig:
    """A cluster of one kind in a directory; ``new`` is what a server that starts there gets."""

    def __init__(self, kind: str, directory: Path) -> None:
        self.kind = kind
        self.directory = directory
        self.cluster = self.new()

    def new(self) -> Cluster:
        self.cluster = make_cluster(self.kind, self.directory)
        return self.cluster

    def node(self) -> Node:
        return available(self.cluster)


def end(rig: Rig, job: dict[str, Any]) -> None:
    """End an endless job and wait until it has: the next test needs the device."""
    (process,) = job["processes"]
    rig.cluster.stop(process["node"], job["attempt_id"], "cancelled")
    first(rig.cluster, process["node"], job["attempt_id"], "log_closed")


@pytest.fixture(scope="module", params=["local", "ray"])
def rig(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TBD_LOCK_DIR", str(tmp_path_factory.mktemp("locks")))  # not those of others on this machine
        rig = Rig(request.param, tmp_path_factory.mktemp(request.param))
        yield rig
        rig.cluster.shut_down(end_runs=True)


def test_a_node_is_listed_with_its_devices(rig: Rig) -> None:
    node = rig.node()
    assert node.name
    assert [device.kind for device in node.devices][:1] == ["cpu"]
    assert node.devices[0].cores
    assert node.inventory["hostname"]


def test_a_job_is_carried_out_and_its_log_fetched_without_a_gap_and_deleted(rig: Rig) -> None:
    node = rig.node()
    job = sleep_job(node)
    attempt_id = job["attempt_id"]
    rig.cluster.start(node.name, job)
    entries = list(follow(rig.cluster, node.name, attempt_id))
    assert [entry["seq"] for entry in entries] == list(range(1, len(entries) + 1))
    assert entries[0]["kind"] == "log_opened"
    assert entries[-1]["kind"] == "log_closed"
    assert entries[-1]["data"]["failure"] is None
    assert rig.cluster.fetch(node.name, attempt_id, len(entries) - 1).entries == [entries[-1]]
    status = {item.attempt_id: item for item in rig.cluster.status(node.name)}[attempt_id]
    assert (status.ended, status.last_seq) == (True, len(entries))
    rig.cluster.acknowledge(node.name, attempt_id, len(entries))
    assert attempt_id not in {item.attempt_id for item in rig.cluster.status(node.name)}
    with pytest.raises(NotFound):
        rig.cluster.fetch(node.name, attempt_id, 0)


def test_starting_twice_starts_once_and_another_token_is_refused(rig: Rig) -> None:
    node = rig.node()
    job = sleep_job(node)
    rig.cluster.start(node.name, job)
    rig.cluster.start(node.name, job)
    with pytest.raises(JobRefused, match="token"):
        rig.cluster.start(node.name, job | {"token": "another"})
    entries = list(follow(rig.cluster, node.name, job["attempt_id"]))
    assert [entry["kind"] for entry in entries].count("process_started") == 1


def test_a_job_of_another_protocol_is_refused(rig: Rig) -> None:
    node = rig.node()
    with pytest.raises(JobRefused, match="protocol"):
        rig.cluster.start(node.name, sleep_job(node) | {"protocol": 99})


def test_stop_ends_the_processes(rig: Rig) -> None:
    node = rig.node()
    job = endless_job(node)
    rig.cluster.start(node.name, job)
    trainer = trainer_of(rig.cluster, node.name, job["attempt_id"])
    first(rig.cluster, node.name, job["attempt_id"], "interval")
    rig.cluster.stop(node.name, job["attempt_id"], "cancelled")
    rig.cluster.stop(node.name, job["attempt_id"], "cancelled")
    closed = first(rig.cluster, node.name, job["attempt_id"], "log_closed")
    assert closed["data"]["failure"]["kind"] == "cancelled"
    assert dead(trainer)
    assert not processes.with_token(job["token"])


def test_an_attempt_stopped_before_it_came_is_refused(rig: Rig) -> None:
    node = rig.node()
    job = sleep_job(node)
    rig.cluster.stop(node.name, job["attempt_id"], "cancelled")
    with pytest.raises(JobRefused, match="stopped"):
        rig.cluster.start(node.name, job)


def test_what_is_unknown_is_not_found(rig: Rig) -> None:
    node = rig.node()
    with pytest.raises(NotFound):
        rig.cluster.fetch(node.name, "att_unknown", 0)
    with pytest.raises(NotFound):
        rig.cluster.status("no-such-node")


def test_an_agent_that_answers_with_an_error_is_told_from_one_that_does_not_answer(rig: Rig) -> None:
    with pytest.raises(NodeFailed, match="no reason"):
        rig.cluster.stop(rig.node().name, "att_whatever", "because")
    assert rig.cluster.silent_s(rig.node().name) < PATIENCE_S
    assert rig.cluster.silent_s("nobody") == math.inf


def test_waiting_ends_early_when_there_is_news(rig: Rig) -> None:
    node = rig.node()
    job = endless_job(node)
    rig.cluster.start(node.name, job)
    first(rig.cluster, node.name, job["attempt_id"], "interval")
    begin = time.monotonic()
    rig.cluster.wait({node.name: {job["attempt_id"]: 0}}, 300.0)
    assert time.monotonic() - begin < 150.0
    end(rig, job)


def test_waiting_for_the_end_of_an_attempt_lasts_until_then(rig: Rig) -> None:
    node = rig.node()
    job = endless_job(node)
    rig.cluster.start(node.name, job)
    first(rig.cluster, node.name, job["attempt_id"], "interval")
    for_the_end = {node.name: {job["attempt_id"]: BEYOND}}
    begin = time.monotonic()
    rig.cluster.wait(for_the_end, 0.5)
    assert time.monotonic() - begin >= 0.45
    rig.cluster.stop(node.name, job["attempt_id"], "cancelled")
    rig.cluster.wait(for_the_end, 300.0)
    assert time.monotonic() - begin < 150.0


def test_a_long_wait_holds_up_nothing_else(rig: Rig) -> None:
    node = rig.node()
    job = endless_job(node)
    rig.cluster.start(node.name, job)
    waiting = [
        threading.Thread(target=rig.cluster.wait, args=({node.name: {job["attempt_id"]: BEYOND + number}}, 300.0))
        for number in range(3)
    ]
    for thread in waiting:
        thread.start()
    for _ in range(20):
        rig.cluster.status(node.name)
    assert all(thread.is_alive() for thread in waiting)
    end(rig, job)
    for thread in waiting:
        thread.join()


def test_interpreters_are_listed_whether_ready_or_not(rig: Rig) -> None:
    found = {item["name"]: item for item in rig.cluster.interpreters(rig.node().name)}
    assert found["system"]["ready"]


def test_a_new_server_goes_on_with_what_runs(rig: Rig) -> None:
    node = rig.node()
    job = endless_job(node)
    rig.cluster.start(node.name, job)
    trainer = trainer_of(rig.cluster, node.name, job["attempt_id"])
    rig.cluster.close()
    with pytest.raises(NodeUnreachable):
        rig.cluster.status(node.name)
    again = rig.new()
    assert available(again).name == node.name
    assert not dead(trainer)
    again.stop(node.name, job["attempt_id"], "cancelled")
    entries = list(follow(again, node.name, job["attempt_id"]))
    assert [entry["seq"] for entry in entries] == list(range(1, len(entries) + 1))
    assert [entry["kind"] for entry in entries].count("log_opened") == 1


def test_training_survives_the_death_of_the_server(rig: Rig) -> None:
    node = rig.node()
    rig.cluster.close()
    job = endless_job(node)
    server = server_process(rig.kind, rig.directory, job)
    server.kill()
    server.wait()
    cluster = rig.new()
    assert available(cluster).name == node.name
    trainer = trainer_of(cluster, node.name, job["attempt_id"])
    last = cluster.fetch(node.name, job["attempt_id"], 0).last_seq
    eventually(lambda: cluster.fetch(node.name, job["attempt_id"], 0).last_seq > last)
    assert not dead(trainer)
    cluster.stop(node.name, job["attempt_id"], "cancelled")
    entries = list(follow(cluster, node.name, job["attempt_id"]))
    assert [entry["seq"] for entry in entries] == list(range(1, len(entries) + 1))


def test_after_the_death_of_an_agent_a_new_one_ends_its_attempts(rig: Rig) -> None:
    node = rig.node()
    job = endless_job(node)
    rig.cluster.start(node.name, job)
    trainer = trainer_of(rig.cluster, node.name, job["attempt_id"])
    first(rig.cluster, node.name, job["attempt_id"], "interval")
    kill(agent_of(trainer))
    with pytest.raises(NodeUnreachable):
        rig.cluster.status(node.name)
    eventually(lambda: rig.cluster.nodes()[0].state is NodeState.AVAILABLE)
    closed = first(rig.cluster, node.name, job["attempt_id"], "log_closed")
    assert closed["data"]["failure"]["kind"] == "node_lost"
    assert dead(trainer)
    assert not processes.with_token(job["token"])
    later = sleep_job(node, max_steps=2)
    rig.cluster.start(node.name, later)
    assert first(rig.cluster, node.name, later["attempt_id"], "log_closed")["data"]["failure"] is None


def test_shutting_down_leaves_what_runs_to_the_next_server_or_no_process(rig: Rig) -> None:
    node = rig.node()
    job = endless_job(node)
    rig.cluster.start(node.name, job)
    trainer = trainer_of(rig.cluster, node.name, job["attempt_id"])
    agent = agent_of(trainer)
    assert rig.cluster.shut_down(end_runs=False) == [node.name]
    rig.new()
    rig.node()
    assert trainer_of(rig.cluster, node.name, job["attempt_id"]) == trainer
    assert rig.cluster.shut_down(end_runs=True) == []
    assert dead(trainer)
    assert dead(agent)
    assert str(rig.directory) not in _command_lines()


def _command_lines() -> str:
    texts = []
    for pid in processes.pids():
        try:
            texts.append(Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace"))
        except OSError:
            continue
    return "\n".join(texts)


@pytest.mark.parametrize("rig", ["ray"], indirect=True)
class TestATerm:
    """Of a server, which calls to an agent that several servers reach carry."""

    def test_that_is_older_than_what_the_agent_has_heard_is_refused_and_one_that_is_over_calls_nobody(
        self, rig: Rig
    ) -> None:
        ray, actor = self._of_agent(rig)

        def call(term: int | None) -> Any:
            return RayHandle(ray, actor, lambda: term).call("heartbeat", PATIENCE_S)["node"]

        assert {call(7), call(8), call(8), call(None)} == {rig.node().name}
        with pytest.raises(AgentError, match="called in term 7, and another one leads in term 8"):
            call(7)

        def over() -> int:
            raise ClusterUnavailable("the lease was not renewed")

        lost = RayHandle(ray, actor, over)
        for ask in (lambda: lost.call("heartbeat", 1.0), lambda: lost.later("heartbeat", 1.0).result(), lost.leave):
            with pytest.raises(AgentUnreachable, match="was not renewed"):
                ask()

    def test_is_not_told_to_an_agent_of_the_version_before(self, rig: Rig) -> None:
        ray, _ = self._of_agent(rig)
        handle = RayHandle(ray, ray.remote(num_cpus=0)(OfTheVersionBefore).remote(), lambda: 3)
        assert handle.call("heartbeat", PATIENCE_S) == ["heartbeat", {}]

    def _of_agent(self, rig: Rig) -> tuple[Any, Any]:
        handle: Any = rig.cluster._keepers()[rig.node().name].handle  # type: ignore[attr-defined]
        return handle._ray, handle._actor


class OfTheVersionBefore:
    """What an actor of an agent was before there were terms."""

    def answer(self, method: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"result": [method, arguments]}
