"""The framework's own rendezvous, for one process of two whose other one does not come: every wait comes to an end."""

import json
import os
import shutil
import signal
import socket
import subprocess

import pytest

from tests.support.strategy_jobs import strategy_job
from tests.trainer_process import ROOT, environment_for

# Joins as process JOB["process"], or is the scheduler if that is its role, with little patience; prints the kind of
# failure and the ranks.
JOIN = """
import json, sys
from workers.trainer import __main__ as trainer
from workers.trainer.base import job as jobs
jobs.RENDEZVOUS_TIMEOUT_S = 1.0
job = jobs.read(sys.argv[1])
process = job.process
adapter = trainer.load(job.plan.framework) if process.role == "worker" else None
try:
    adapter.join(job, process) if adapter else trainer.SCHEDULERS[job.plan.strategy](job)
except Exception as error:
    print(json.dumps([trainer.failure_of(error, adapter), getattr(error, "ranks", None)]))
"""


# Joins as process JOB["process"]; rank 1 then comes to no exchange for a while. Prints the kind of failure.
HANG = """
import json, sys, time
from workers.trainer import __main__ as trainer
from workers.trainer.base import job as jobs
import torch, torch.distributed
job = jobs.read(sys.argv[1])
adapter = trainer.load(job.plan.framework)
adapter.join(job, job.process)
if job.process.rank == 1:
    time.sleep(30)
try:
    torch.distributed.all_reduce(torch.ones(2))
except Exception as error:
    print(json.dumps(trainer.failure_of(error, adapter)), flush=True)
"""


def join(job, process, python, folder):
    """Let ``process`` of ``job`` join alone; return what ended it, or the negated signal that did."""
    path = folder / "job.json"
    path.write_text(json.dumps({**job, "process": process}))
    command = [python, "-c", JOIN, str(path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    return done.returncode if done.returncode < 0 else json.loads(done.stdout)


@pytest.fixture
def taken(request):
    """A function that listens on the port of a job's first node."""
    with socket.socket() as listener:

        def take(job):
            listener.bind(("", job["nodes"][0]["ports"]["framework"]))
            listener.listen(1)

        yield take


@pytest.mark.framework("pytorch")
@pytest.mark.after_change
def test_ddp_names_the_rank_that_does_not_come(python_of, tmp_path):
    job = strategy_job("pytorch", "ddp", nodes=2, devices=1)
    assert join(job, "worker0", python_of("pytorch"), tmp_path) == ["timed_out", [1]]
    assert join(job, "worker1", python_of("pytorch"), tmp_path) == ["timed_out", [0]]


@pytest.mark.framework("pytorch")
@pytest.mark.after_change
def test_an_exchange_that_hangs_ends_long_before_the_attempt(python_of, tmp_path):
    job = strategy_job("pytorch", "ddp", nodes=2, devices=1)
    job["plan"].update(timeout_s=600.0, exchange_timeout_s=3.0)
    ranks = []
    for name in ("worker0", "worker1"):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps({**job, "process": name}))
        command = [python_of("pytorch"), "-c", HANG, str(path)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        ranks.append(subprocess.Popen(command, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True))
    try:
        assert json.loads(ranks[0].communicate(timeout=60)[0]) == "timed_out"
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()


@pytest.mark.framework("pytorch")
def test_ddp_without_its_port_is_a_failed_set_up(python_of, tmp_path, taken):
    job = strategy_job("pytorch", "ddp", nodes=2, devices=1)
    taken(job)
    assert join(job, "worker0", python_of("pytorch"), tmp_path) == ["setup_failed", [0]]


@pytest.mark.framework("tensorflow")
@pytest.mark.after_change
def test_tensorflow_ends_its_own_wait_for_other_workers(python_of, tmp_path):
    """The first worker waits inside the library, where only an alarm ends it; the others wait outside."""
    job = strategy_job("tensorflow", "multi-worker-mirrored", nodes=2, devices=1)
    assert join(job, "worker0", python_of("tensorflow"), tmp_path) == -signal.SIGALRM
    assert join(job, "worker1", python_of("tensorflow"), tmp_path) == ["timed_out", [0]]


@pytest.mark.framework("tensorflow")
@pytest.mark.after_change
def test_tensorflow_without_its_port_is_a_failed_set_up(python_of, tmp_path, taken):
    job = strategy_job("tensorflow", "multi-worker-mirrored", nodes=2, devices=1)
    taken(job)
    assert join(job, "worker0", python_of("tensorflow"), tmp_path) == ["setup_failed", None]


@pytest.mark.framework("cntk")
@pytest.mark.skipif(shutil.which("mpirun") is None, reason="no mpirun: apt-get install openmpi-bin")
def test_cntk_does_not_wait_for_ever_for_a_rank_that_never_begins_with_mpi(python_of, tmp_path):
    job = strategy_job("cntk", "mpi", devices=2)
    (tmp_path / "job.json").write_text(json.dumps({**job, "process": "worker0"}))
    python = python_of("cntk")
    # mpirun itself would end the first rank when the second does: the shell tells how it went before.
    shell = f'"$0" -c "$1" "{tmp_path}/job.json"; echo "ended with $?"'
    first = ["-np", "1", "/bin/sh", "-c", shell, python, JOIN]
    environment = {**os.environ, **environment_for(python), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["mpirun", "--oversubscribe", "--bind-to", "none", *first, ":", "-np", "1", "sleep", "10"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert f"ended with {128 + signal.SIGALRM}" in done.stdout


@pytest.mark.framework("tensorflow")
@pytest.mark.after_change
def test_horovods_rendezvous_names_the_ranks_that_do_not_come_and_a_rank_misses_the_rendezvous(python_of, tmp_path):
    """Horovod itself would try for a second and then abort its process."""
    job = strategy_job("tensorflow", "horovod", nodes=2, devices=1)
    assert join(job, "scheduler", python_of("horovod"), tmp_path) == ["timed_out", [0, 1]]
    assert join(job, "worker0", python_of("horovod"), tmp_path) == ["timed_out", None]


@pytest.mark.framework("tensorflow")
def test_horovod_without_the_port_of_its_rendezvous_is_a_failed_set_up(python_of, tmp_path, taken):
    job = strategy_job("tensorflow", "horovod", nodes=2, devices=1)
    taken(job)
    assert join(job, "scheduler", python_of("horovod"), tmp_path) == ["setup_failed", None]
