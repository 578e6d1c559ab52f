"""``python -m workers.node JOB.json --events OUT.jsonl``: one job on this host and nothing else."""

import json
import signal
import subprocess
import sys
from pathlib import Path

from tests.integration.node_attempts import UNEVEN, a_job, failure_of, until, waiting_for
from workers.node import processes
from workers.trainer import protocol

ROOT = Path(__file__).resolve().parents[2]


def command(tmp_path, job):
    (tmp_path / "job.json").write_text(json.dumps(job))
    return [sys.executable, "-m", "workers.node", str(tmp_path / "job.json"), "--events", str(tmp_path / "out.jsonl")]


def carry_out(tmp_path, job):
    return subprocess.run(command(tmp_path, job), cwd=ROOT, capture_output=True, text=True, timeout=60)


def entries_in(tmp_path):
    return [protocol.check_event(json.loads(line)) for line in (tmp_path / "out.jsonl").read_text().splitlines()]


def test_a_job_that_ends_well_leaves_a_complete_log_and_nothing_else(tmp_path):
    job = a_job(ranks=2)
    job["processes"][1]["node"] = "whatever the job calls this host"
    done = carry_out(tmp_path, job)
    assert done.returncode == 0, done.stderr
    entries = entries_in(tmp_path)
    assert [entry["seq"] for entry in entries] == list(range(1, len(entries) + 1))
    assert failure_of(entries) is None
    assert {entry["source"] for entry in entries} == {"agent", "worker0", "worker1"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["job.json", "out.jsonl"]
    assert done.stdout == ""


def test_a_job_that_fails_is_exit_status_1_and_says_why(tmp_path):
    done = carry_out(tmp_path, a_job(options=waiting_for(3, fault="nan")))
    assert done.returncode == 1
    assert "diverged" in done.stderr
    assert failure_of(entries_in(tmp_path))["kind"] == "diverged"


def test_a_bad_job_is_exit_status_2_and_leaves_no_log(tmp_path):
    done = carry_out(tmp_path, {"protocol": 99})
    assert done.returncode == 2
    assert "protocol 99" in done.stderr
    assert not (tmp_path / "out.jsonl").exists()


def test_a_log_that_exists_is_never_written_over(tmp_path):
    (tmp_path / "out.jsonl").write_text("precious\n")
    done = carry_out(tmp_path, a_job())
    assert done.returncode == 2
    assert (tmp_path / "out.jsonl").read_text() == "precious\n"


def test_control_c_ends_the_attempt_in_order(tmp_path):
    job = a_job(options=UNEVEN, max_steps=100000)
    running = subprocess.Popen(command(tmp_path, job), cwd=ROOT, stderr=subprocess.PIPE)
    out = tmp_path / "out.jsonl"
    until(lambda: out.exists() and '"interval"' in out.read_text())
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=20)
    assert running.returncode == 1
    assert b"cancelled" in said
    assert failure_of(entries_in(tmp_path))["kind"] == "cancelled"
    assert not processes.with_token(job["token"])


def test_the_interpreter_that_the_job_names_is_used_as_it_is(tmp_path):
    job = a_job()
    job["interpreter"] = {"name": "mine", "definition": None, "python": sys.executable, "environment": {"MARK": "1"}}
    assert carry_out(tmp_path, job).returncode == 0
    assert entries_in(tmp_path)[0]["data"]["job"]["interpreter"]["environment"] == {"MARK": "1"}
