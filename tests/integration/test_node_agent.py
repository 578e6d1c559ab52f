"""An agent with real processes: attempts that end well, go wrong, are stopped, fetched, acknowledged and deleted."""

import json
import os
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.integration.node_attempts import (
    NODE,
    UNEVEN,
    a_job,
    carried_out,
    failure_of,
    kinds,
    log_of,
    of_kind,
    steps_begin,
    until,
    waiting_for,
)
from workers.node import processes
from workers.node.agent import Agent
from workers.trainer import protocol

pytest_plugins = ["tests.integration.node_agents"]


def test_an_attempt_leaves_one_complete_log_that_follows_the_protocol(agent):
    job = a_job()
    entries = carried_out(agent, job)
    assert [entry["seq"] for entry in entries] == list(range(1, len(entries) + 1))
    for entry in entries:
        protocol.check_event(entry)
    assert entries[0]["kind"] == "log_opened"
    assert entries[-1]["data"]["entries"] == len(entries)
    assert failure_of(entries) is None
    assert {entry["source"] for entry in entries} == {"agent", "worker0"}
    assert sum(interval["n"] for interval in of_kind(entries, "interval")) == 40
    (ended,) = of_kind(entries, "process_exited")
    assert (ended["exit_code"], ended["signal"]) == (0, None)


def test_the_log_opens_with_the_completed_job_but_not_its_token(agent):
    job = a_job()
    opened = carried_out(agent, job)[0]["data"]
    assert opened["job"]["interpreter"]["python"] == sys.executable
    assert opened["job"]["control"]["port"] > 0
    assert job["token"] not in json.dumps(opened)
    assert opened["inventory"]["node"] == opened["node"] == NODE
    assert set(opened["provenance"]["tbd"]) == {"version", "commit", "dirty", "reason"}


def test_telemetry_stands_beside_the_intervals(agent):
    entries = carried_out(agent, a_job(options={"step_time_s": 0.02}))
    readings = of_kind(entries, "reading")
    assert len(readings) >= 5
    subjects = {(metric, subject) for reading in readings for metric, subject, _ in reading["values"]}
    assert {("cpu_s", "attempt"), ("memory_bytes", "process:worker0"), ("stolen_s", "host")} <= subjects
    resident = [
        value
        for reading in readings
        for metric, subject, value in reading["values"]
        if (metric, subject) == ("memory_bytes", "attempt")
    ]
    assert max(resident) > 1e6


def test_processes_are_pinned_to_their_cores_and_told_their_threads(agent):
    job = a_job(options=waiting_for(1, fault="hang"))
    agent.start(job)
    steps_or_hang = lambda: of_kind(agent.fetch(job["attempt_id"])["entries"], "built")  # noqa: E731
    until(steps_or_hang)
    (started,) = of_kind(agent.fetch(job["attempt_id"])["entries"], "process_started")
    environment = Path(f"/proc/{started['pid']}/environ").read_bytes().split(b"\0")
    assert os.sched_getaffinity(started["pid"]) == set(job["processes"][0]["devices"][0]["cores"])
    assert b"OMP_NUM_THREADS=1" in environment
    assert b"CUDA_VISIBLE_DEVICES=" in environment
    agent.stop(job["attempt_id"], "cancelled")
    log_of(agent, job)


@pytest.mark.parametrize(
    ("fault", "kind", "exit_code"),
    [
        ("nan", "diverged", 82),
        ("out_of_memory", "out_of_memory", 81),
        ("crash", "crashed", 86),
        ("exit", "crashed", 3),
    ],
)
def test_a_process_that_fails_gives_the_attempt_its_failure(agent, fault, kind, exit_code):
    failure = failure_of(carried_out(agent, a_job(options=waiting_for(3, fault=fault))))
    assert (failure["kind"], failure["exit_code"], failure["ranks"]) == (kind, exit_code, [0])
    assert failure["message"]


def test_garbage_among_the_events_is_an_invalid_log_and_is_kept(agent):
    entries = carried_out(agent, a_job(options=waiting_for(3, fault="garbage")))
    assert failure_of(entries)["kind"] == "invalid_log"
    assert of_kind(entries, "garbage")[0]["process"] == "worker0"


def test_a_process_killed_by_a_signal_is_a_crash_with_that_signal(agent):
    failure = failure_of(carried_out(agent, a_job(options=waiting_for(3, fault="signal"))))
    assert (failure["kind"], failure["signal"], failure["exit_code"]) == ("crashed", 9, None)


def test_sigkill_while_the_kernel_ran_out_of_memory_is_out_of_memory(agent, monkeypatch):
    counts = iter([0])
    monkeypatch.setattr(processes, "oom_kills", lambda: next(counts, 1))
    failure = failure_of(carried_out(agent, a_job(options=waiting_for(3, fault="signal"))))
    assert failure["kind"] == "out_of_memory"


def test_a_rank_that_dies_ends_the_attempt_and_is_the_one_named(agent):
    job = a_job(ranks=2, options=waiting_for(3, fault="signal", fault_rank=1))
    entries = carried_out(agent, job)
    assert (failure_of(entries)["kind"], failure_of(entries)["ranks"]) == ("crashed", [1])
    assert failure_of(entries)["signal"] == 9
    assert len(of_kind(entries, "process_exited")) == 2
    assert not processes.with_token(job["token"])


def test_a_hang_beyond_the_timeout_is_timed_out_and_the_process_is_gone(agent):
    job = a_job(options=waiting_for(3, fault="hang"), timeout_s=1)
    entries = carried_out(agent, job)
    assert (failure_of(entries)["kind"], failure_of(entries)["ranks"]) == ("timed_out", [0])
    assert not processes.with_token(job["token"])


def test_a_grandchild_in_a_session_of_its_own_does_not_outlive_the_attempt(agent):
    job = a_job(options=waiting_for(3, fault="leak_child"))
    entries = carried_out(agent, job)
    assert failure_of(entries) is None
    assert entries[-1]["data"]["stray_processes"] == 1
    assert not processes.with_token(job["token"])


def test_a_cancelled_attempt_says_so_and_leaves_no_process(agent):
    job = a_job(options=UNEVEN, max_steps=100000)
    agent.start(job)
    steps_begin(agent, job)
    agent.stop(job["attempt_id"], "cancelled", "asked by a person")
    agent.stop(job["attempt_id"], "timed_out", "too late: the first reason counts")
    entries = log_of(agent, job)
    assert (failure_of(entries)["kind"], failure_of(entries)["message"]) == ("cancelled", "asked by a person")
    assert of_kind(entries, "stop_requested") == [{"reason": "cancelled", "detail": "asked by a person"}]
    assert not processes.with_token(job["token"])


def test_the_device_is_free_again_after_an_attempt_was_killed(agent):
    job = a_job(options=waiting_for(3, fault="hang"), timeout_s=1)
    carried_out(agent, job)
    again = a_job()
    again["processes"][0]["devices"] = job["processes"][0]["devices"]
    assert failure_of(carried_out(agent, again)) is None


def test_an_attempt_is_stopped_at_its_length_and_all_ranks_stop_at_the_same_step(agent):
    job = a_job(ranks=2, options={"step_time_s": 0.01}, max_steps=5000)
    entries = carried_out(agent, {**job, "stopping": {**job["stopping"], "intervals": 60, "seconds": 0.0}})
    assert failure_of(entries) is None
    (decided,) = of_kind(entries, "stopping_decided")
    assert (decided["reason"], decided["steps"] >= 60) == ("length", True)
    stopped = of_kind(entries, "stopped")
    assert {stop["reason"] for stop in stopped} == {"length"}
    assert len(stopped) == 2
    (step,) = {stop["step"] for stop in stopped}
    assert decided["steps"] <= step < 5000


def test_starting_again_changes_nothing_and_another_token_is_refused(agent):
    job = a_job(options=UNEVEN, max_steps=100000)
    assert [agent.start(job)["state"] for _ in range(3)] == ["running"] * 3
    assert agent.start({**job, "token": "another"})["state"] == "refused"
    agent.stop(job["attempt_id"], "cancelled")
    entries = log_of(agent, job)
    assert agent.start(job)["state"] == "ended"
    assert len(of_kind(entries, "process_started")) <= 1


def test_a_job_of_another_protocol_or_with_a_bad_id_is_refused(agent):
    assert "protocol 99" in agent.start({**a_job(), "protocol": 99})["reason"]
    assert agent.start({**a_job(), "attempt_id": "../escape"})["state"] == "refused"
    assert agent.start([])["state"] == "refused"


def test_an_attempt_stopped_before_it_came_is_refused_when_it_comes(agent):
    job = a_job()
    assert agent.stop(job["attempt_id"], "cancelled")["state"] == "ended"
    answer = agent.start(job)
    assert answer["state"] == "refused"
    assert "cancelled" in answer["reason"]
    with pytest.raises(ValueError, match="bored"):
        agent.stop(job["attempt_id"], "bored")


def test_a_log_is_deleted_once_it_is_acknowledged_to_its_end_and_not_before(agent, tmp_path):
    job = a_job()
    entries = carried_out(agent, job)
    folder = tmp_path / "agent" / job["attempt_id"]
    assert agent.acknowledge(job["attempt_id"], len(entries) - 1)["deleted"] is False
    assert (folder / "log.jsonl").exists()
    assert agent.acknowledge(job["attempt_id"], len(entries))["deleted"] is True
    assert [path.name for path in folder.iterdir()] == ["ended.json"]
    assert agent.status()["attempts"] == []
    assert agent.start(job)["state"] == "ended"
    assert agent.fetch(job["attempt_id"])["known"] is False


def test_whoever_waits_for_files_to_be_removed_keeps_nobody_else_waiting(agent, monkeypatch):
    """As behind a file server that hangs: an agent that does not say how its attempts are would be taken for dead."""
    job, going = a_job(), a_job()
    entries = carried_out(agent, job)
    hangs, goes_on, forget = threading.Event(), threading.Event(), agent._attempts.forget

    def hung(*given, **named):
        hangs.set()
        goes_on.wait(60)
        return forget(*given, **named)

    monkeypatch.setattr(agent._attempts, "forget", hung)
    removing = threading.Thread(target=agent.acknowledge, args=(job["attempt_id"], len(entries)))
    removing.start()
    assert hangs.wait(60)
    try:
        assert agent.start(going)["state"] == "running"
        assert agent.acknowledge(job["attempt_id"], len(entries))["deleted"] is False  # somebody is at it
        assert {one["attempt_id"] for one in agent.status()["attempts"]} == {job["attempt_id"], going["attempt_id"]}
        assert agent.stop(going["attempt_id"], "cancelled")["state"] in ("running", "ended")
    finally:
        goes_on.set()
        removing.join()
    assert [one["attempt_id"] for one in agent.status()["attempts"]] == [going["attempt_id"]]


def test_status_shows_how_far_a_log_is_and_was_acknowledged(agent):
    job = a_job()
    entries = carried_out(agent, job)
    agent.acknowledge(job["attempt_id"], 2)
    (attempt,) = agent.status()["attempts"]
    assert attempt["state"] == "ended"
    assert (attempt["last_seq"], attempt["acknowledged"]) == (len(entries), 2)
    assert job["token"] not in json.dumps(agent.status())


def test_waiting_returns_when_something_happens_and_not_before(agent):
    job = a_job(options={"step_time_s": 0.001, "build_time_s": 1.0})
    only_its_end = {job["attempt_id"]: 2**62}
    agent.start(job)
    begun = time.monotonic()
    assert agent.wait(only_its_end, 0.2) == {"attempts": {}}
    assert time.monotonic() - begun >= 0.2
    assert agent.wait({job["attempt_id"]: 0}, 5)["attempts"][job["attempt_id"]]["ended"] is False
    assert agent.wait(only_its_end, 30)["attempts"][job["attempt_id"]]["ended"] is True
    entries = log_of(agent, job)
    assert agent.wait(only_its_end, 5) == {"attempts": {job["attempt_id"]: {"last_seq": len(entries), "ended": True}}}
    assert agent.wait({"unknown": 0}, 5)["attempts"]["unknown"]["ended"] is True


def test_an_agent_out_of_contact_ends_its_processes_itself(tmp_path):
    agent = Agent(tmp_path / "agent", NODE, fence_s=0.5)
    try:
        job = a_job(options=UNEVEN, max_steps=100000)
        agent.start(job)
        log = agent._known[job["attempt_id"]].log  # looking at it by a call would be contact
        until(lambda: log.closed)
        failure = failure_of(log.slice(0, 100000))
        assert failure["kind"] == "node_lost"
        assert "fence" in failure["message"]
        assert not processes.with_token(job["token"])
    finally:
        agent.close()


def test_an_agent_in_contact_is_not_fenced(tmp_path):
    # Wide beside a heartbeat, which a busy machine holds back, and short beside the job.
    agent = Agent(tmp_path / "agent", NODE, fence_s=2.0)
    try:
        job = a_job(options={"step_time_s": 0.02}, max_steps=150)
        agent.start(job)
        end = threading.Event()
        keeper = threading.Thread(target=lambda: [agent.heartbeat() for _ in iter(lambda: end.wait(0.1), True)])
        keeper.start()
        log = agent._known[job["attempt_id"]].log
        until(lambda: log.closed)
        end.set()
        keeper.join()
        assert failure_of(log.slice(0, 100000)) is None
    finally:
        agent.close()


def test_a_closing_agent_ends_its_attempts_and_the_next_one_finds_their_logs(tmp_path):
    agent = Agent(tmp_path / "agent", NODE)
    job = a_job(options=UNEVEN, max_steps=100000)
    agent.start(job)
    steps_begin(agent, job)
    agent.close()
    assert not processes.with_token(job["token"])
    following = Agent(tmp_path / "agent", NODE)
    try:
        assert failure_of(log_of(following, job))["kind"] == "node_lost"
        assert following.agent_id != agent.agent_id
    finally:
        following.close()


def test_a_missing_interpreter_is_setup_failed_with_the_command_that_fixes_it(agent, tmp_path, monkeypatch):
    monkeypatch.setenv("TBD_INTERPRETERS_DIR", str(tmp_path / "none"))
    job = a_job()
    job["interpreter"]["name"] = "pytorch"
    entries = carried_out(agent, job)
    assert kinds(entries) == ["log_opened", "log_closed"]
    assert failure_of(entries)["kind"] == "setup_failed"
    assert "tbd frameworks install pytorch" in failure_of(entries)["message"]


def test_an_interpreter_that_does_not_exist_is_setup_failed(agent):
    job = a_job()
    job["interpreter"]["python"] = "/no/such/python"
    assert "/no/such/python" in failure_of(carried_out(agent, job))["message"]


def test_a_node_without_a_process_of_the_job_says_so(agent):
    job = a_job()
    job["processes"][0]["node"] = "another"
    assert "no process on node" in failure_of(carried_out(agent, job))["message"]


def test_two_agents_cannot_own_one_directory(agent, tmp_path, monkeypatch):
    monkeypatch.setattr("workers.node.attempts._LOCK_PATIENCE_S", 0.1)
    with pytest.raises(RuntimeError, match="another agent"):
        Agent(tmp_path / "agent", NODE)


def test_the_lock_of_a_directory_is_not_inherited_by_children(agent, tmp_path):
    job = a_job(options=waiting_for(1, fault="hang"))
    agent.start(job)
    until(lambda: processes.with_token(job["token"]))
    for child in processes.with_token(job["token"]):
        names = [os.readlink(path) for path in Path(f"/proc/{child.pid}/fd").iterdir() if path.is_symlink()]
        assert not [name for name in names if name.endswith(("agent.lock", "log.jsonl"))]
    agent.stop(job["attempt_id"], "cancelled")
    log_of(agent, job)


def test_a_telemetry_reading_costs_little_processor_time(agent):
    """A loose bound, far above what is measured: it catches a walk of all processes in the hot loop."""
    entries = carried_out(agent, a_job(options={"step_time_s": 0.05}))
    readings = of_kind(entries, "reading")
    assert readings[-1]["sampler_cpu_s"] / len(readings) < 0.02
