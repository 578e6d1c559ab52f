"""Processes of the trainer, with the model that waits: in this Python and, where there is one, in Python 3.6."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.trainer_process import Trainer, make_job, python36, run, tell
from workers.trainer.protocol import EXIT_STATUS

OLD = python36()
PYTHONS = [
    sys.executable,
    pytest.param(OLD, marks=pytest.mark.skipif(OLD is None, reason="no Python 3.6 on this machine")),
]
FAST = {"step_time_s": 0.002}


def sleep_job(ranks=1, options=None, **more):
    return make_job("sleep", "sleep", ranks, options={**FAST, **(options or {})}, **more)


def wait_for(condition, timeout_s=20.0):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


@pytest.mark.parametrize("python", PYTHONS)
def test_a_run_reports_every_event_in_order(tmp_path, python):
    (trainer,) = run(sleep_job(max_steps=3), tmp_path, python)
    assert trainer.popen.returncode == 0, trainer.output
    kinds = [event["kind"] for event in trainer.events()]
    assert kinds[:4] == ["started", "versions", "joined", "built"]
    assert kinds[4:10] == ["interval", "loss"] * 3
    assert kinds[10:] == ["stopped", "activity", "memory", "finished"]


@pytest.mark.parametrize("python", PYTHONS)
def test_a_gang_stops_at_the_same_step_when_the_agent_says_so(tmp_path, python):
    job = sleep_job(ranks=3, max_steps=10**9)
    trainers = [Trainer(job, tmp_path, python, process["name"]) for process in job["processes"]]
    wait_for(lambda: all(trainer.data("interval")[5:] for trainer in trainers))
    tell(job, {"stop": "precise"})
    assert [trainer.finish() for trainer in trainers] == [0, 0, 0]
    (stopped,) = {tuple(trainer.data("stopped")[0].items()) for trainer in trainers}
    assert dict(stopped)["reason"] == "precise"
    assert len({trainer.data("finished")[0]["weights_sha256"] for trainer in trainers}) == 1


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize(("ranks", "farewells"), [(1, 0), (2, 2)])
def test_only_a_process_that_others_wait_for_takes_its_framework_down(tmp_path, python, ranks, farewells):
    planted = ["import atexit, sys", "atexit.register(lambda: sys.stdout.write('farewell'))"]
    job = sleep_job(ranks=ranks, options={}, max_steps=3)
    trainers = [Trainer(job, tmp_path, python, process["name"], planted=planted) for process in job["processes"]]
    assert [trainer.finish() for trainer in trainers] == [0] * ranks
    assert sum("farewell" in trainer.output for trainer in trainers) == farewells


# Whatever is asked for while a failure is reported finds no memory.
NO_ROOM = [
    "from workers.trainer.base import failure",
    "def none(error): raise MemoryError",
    "failure.lacks_space = none",
]


@pytest.mark.parametrize("python", PYTHONS)
def test_a_shortage_that_leaves_no_room_for_its_own_report_is_told_by_the_exit_status(tmp_path, python):
    job = sleep_job(options={"fault": "nan", "fault_rank": 0, "fault_step": 2}, max_steps=10)
    (trainer,) = run(job, tmp_path, python, planted=NO_ROOM)
    assert trainer.popen.returncode == EXIT_STATUS["out_of_memory"], trainer.output
    assert trainer.data("error") == []


@pytest.mark.parametrize("python", PYTHONS)
def test_a_rank_that_diverges_ends_all_ranks_as_diverged(tmp_path, python):
    job = sleep_job(ranks=3, options={"fault": "nan", "fault_rank": 1, "fault_step": 4}, max_steps=1000)
    trainers = run(job, tmp_path, python)
    assert {trainer.popen.returncode for trainer in trainers} == {EXIT_STATUS["diverged"]}
    assert [trainer.data("error")[0]["ranks"] for trainer in trainers] == [[1]] * 3
    assert trainers[1].data("loss")[-1] == {"step": 4, "value": "NaN"}


def test_a_rank_that_is_killed_in_mid_run_ends_the_others(tmp_path):
    job = sleep_job(ranks=3, max_steps=10**9)
    trainers = [Trainer(job, tmp_path, process=process["name"]) for process in job["processes"]]
    wait_for(lambda: all(trainer.data("interval")[5:] for trainer in trainers))
    trainers[2].popen.kill()
    assert [trainer.finish() for trainer in trainers] == [EXIT_STATUS["crashed"]] * 2 + [-9]
    assert [trainer.data("error")[0]["ranks"] for trainer in trainers[:2]] == [[2], [2]]


def test_a_rank_that_never_starts_ends_the_others(tmp_path):
    job = sleep_job(ranks=2, timeout_s=1.0)
    trainer = Trainer(job, tmp_path)
    assert trainer.finish() == EXIT_STATUS["timed_out"]
    assert trainer.data("error")[0]["ranks"] == [1]


@pytest.mark.parametrize(("fault", "status"), [("out_of_memory", 81), ("crash", 86), ("exit", 3), ("signal", -9)])
def test_a_fault_ends_the_process_as_that_fault_does(tmp_path, fault, status):
    (trainer,) = run(sleep_job(options={"fault": fault}), tmp_path)
    assert trainer.popen.returncode == status
    errors = trainer.data("error")
    assert len(trainer.data("interval")) == 2
    assert [error["failure"] for error in errors] == [kind for kind, code in EXIT_STATUS.items() if code == status]


def test_a_rank_that_writes_garbage_into_its_log_trains_on(tmp_path):
    (trainer,) = run(sleep_job(options={"fault": "garbage"}), tmp_path)
    assert trainer.popen.returncode == 0
    assert "this is not an event" in trainer.lines()


def test_a_rank_that_hangs_stays_until_it_is_killed(tmp_path):
    trainer = Trainer(sleep_job(options={"fault": "hang"}), tmp_path)
    wait_for(lambda: len(trainer.data("loss")) == 2)
    with pytest.raises(subprocess.TimeoutExpired):
        trainer.popen.wait(0.5)
    trainer.popen.kill()
    trainer.finish()
    assert len(trainer.data("interval")) == 2


def test_a_grandchild_can_be_left_behind_in_a_session_of_its_own(tmp_path):
    job = sleep_job(options={"fault": "leak_child"})
    (trainer,) = run({**job, "token": "leaks-" + tmp_path.name}, tmp_path)
    assert trainer.popen.returncode == 0
    (left,) = processes_with("leaks-" + tmp_path.name)
    assert Path(f"/proc/{left}/stat").read_text().rpartition(")")[2].split()[3] == str(left)
    subprocess.run(["kill", "-9", str(left)], check=True)


def processes_with(token):
    """Return the processes whose environment holds ``token``."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if token.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def test_a_device_is_given_to_one_process_only_until_that_one_is_gone(tmp_path):
    locks = tmp_path / "locks"
    locks.mkdir()
    job = sleep_job(max_steps=10**9, lock_dir=locks)
    (tmp_path / "first").mkdir()
    first = Trainer(job, tmp_path / "first")
    wait_for(lambda: first.data("built"))
    (second,) = run(sleep_job(lock_dir=locks), tmp_path)
    assert second.popen.returncode == EXIT_STATUS["setup_failed"]
    assert "device in use" in second.data("error")[0]["message"]
    assert str(first.popen.pid) in second.data("error")[0]["message"]
    first.popen.kill()
    first.finish()
    (third,) = run(sleep_job(lock_dir=locks), tmp_path)
    assert third.popen.returncode == 0


def test_a_framework_that_this_interpreter_lacks_is_a_failed_set_up(tmp_path):
    (trainer,) = run(make_job("resnet_50", "tensorflow"), tmp_path)
    assert trainer.popen.returncode == EXIT_STATUS["setup_failed"]
    assert sys.executable in trainer.data("error")[0]["message"]


def test_a_job_of_another_protocol_is_refused(tmp_path):
    (trainer,) = run({**sleep_job(), "protocol": 999}, tmp_path)
    assert trainer.popen.returncode == 1
    assert "protocol 999" in trainer.output
