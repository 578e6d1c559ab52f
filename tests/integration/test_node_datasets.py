"""Datasets that an agent prepares before it starts an attempt: once, anew after a failure, and not on a full disk."""

import subprocess
import sys
from pathlib import Path

from tests.integration.node_attempts import ROOT, a_job, carried_out, failure_of, log_of, until
from workers.node import datasets, interpreters, prepare, processes
from workers.node.interpreters import Interpreter

pytest_plugins = ["tests.integration.node_agents"]


def a_dataset(tmp_path, monkeypatch, program):
    """A dataset whose preparation is ``program``, run by this Python."""
    package = tmp_path / "tree" / "suites" / "datasets" / "made_up"
    package.mkdir(parents=True)
    (tmp_path / "tree" / "workers").symlink_to(ROOT / "workers")
    (tmp_path / "tree" / "suites" / "models").symlink_to(ROOT / "suites" / "models")
    (package / "prepare.py").write_text("import sys, os, pathlib\nroot = pathlib.Path(sys.argv[2])\n" + program)
    monkeypatch.setattr(prepare, "ROOT", tmp_path / "tree")
    monkeypatch.setenv("TBD_DATASETS_DIR", str(tmp_path / "datasets"))
    own = Interpreter("datasets", "x", sys.executable, {}, True, None)
    real = interpreters.resolve
    monkeypatch.setattr(interpreters, "resolve", lambda name, *more: own if name == "datasets" else real(name, *more))
    job = a_job(data="made-up")
    job["dataset"] = {"name": "made-up", "interpreter": "datasets", "module": "suites.datasets.made_up", "root": None}
    return job


def test_a_missing_dataset_is_prepared_once_and_its_folder_stands_in_the_job(agent, tmp_path, monkeypatch):
    program = "(root / 'file').write_text('x')\nopen(root.parent / 'count', 'a').write('1')\n"
    job = a_dataset(tmp_path, monkeypatch, program)
    for job_id in ("first", "second"):
        entries = carried_out(agent, {**job, "attempt_id": job_id})
        assert failure_of(entries) is None
    root = Path(entries[0]["data"]["job"]["dataset"]["root"])
    assert (root / "file").read_text() == "x"
    assert (tmp_path / "datasets" / "count").read_text() == "1"


def registered_job(tmp_path, monkeypatch):
    """A job on files of this host that are registered here, prepared by this Python."""
    monkeypatch.setenv("TBD_DATASETS_DIR", str(tmp_path / "datasets"))
    monkeypatch.setenv("TBD_REGISTERED_DATASETS_DIR", str(tmp_path / "registered"))
    own = Interpreter("datasets", "x", sys.executable, {}, True, None)
    real = interpreters.resolve
    monkeypatch.setattr(interpreters, "resolve", lambda name, *more: own if name == "datasets" else real(name, *more))
    (tmp_path / "files" / "train" / "n1").mkdir(parents=True)
    (tmp_path / "files" / "train" / "n1" / "a.JPEG").write_bytes(b"x" * 10)
    datasets.register("my-images", str(tmp_path / "files"), "image-folder")
    job = a_job(data="my-images")
    job["dataset"] = {**datasets.offered()["my-images"], "root": None}
    return job


def test_files_that_are_registered_here_are_prepared_beside_them_and_the_log_says_which(agent, tmp_path, monkeypatch):
    job = registered_job(tmp_path, monkeypatch)
    entries = carried_out(agent, job)
    assert failure_of(entries) is None
    root = Path(entries[0]["data"]["job"]["dataset"]["root"])
    assert (root / "train" / "n1" / "a.JPEG").read_bytes() == b"x" * 10
    (told,) = [entry["data"] for entry in entries if entry["kind"] == "dataset"]
    assert told == {key: job["dataset"][key] for key in ("name", "files", "bytes", "sha256")}
    assert [path.name for path in (tmp_path / "files").iterdir()] == ["train"]


def test_files_that_changed_since_they_were_registered_fail_the_set_up_and_are_named(agent, tmp_path, monkeypatch):
    job = registered_job(tmp_path, monkeypatch)
    (tmp_path / "files" / "train" / "n1" / "a.JPEG").unlink()
    failure = failure_of(carried_out(agent, job))
    assert failure["kind"] == "setup_failed"
    assert f"{tmp_path / 'files'} holds other files than when it was registered" in failure["message"]


def test_a_dataset_that_is_not_registered_here_fails_the_set_up_with_the_command(agent, tmp_path, monkeypatch):
    job = registered_job(tmp_path, monkeypatch)
    datasets.forget("my-images")
    failure = failure_of(carried_out(agent, job))
    assert failure["kind"] == "setup_failed"
    assert "tbd datasets register my-images PATH --layout image-folder" in failure["message"]


def test_a_preparation_that_fails_is_setup_failed_with_its_last_words_and_is_tried_anew(agent, tmp_path, monkeypatch):
    job = a_dataset(tmp_path, monkeypatch, "(root / 'half').write_text('x')\nsys.exit('no photographs here')\n")
    for job_id in ("first", "second"):
        failure = failure_of(carried_out(agent, {**job, "attempt_id": job_id}))
        assert failure["kind"] == "setup_failed"
        assert "no photographs here" in failure["message"]


def test_a_preparation_that_meets_a_full_disk_is_no_space_and_names_the_disk(agent, small_disk, tmp_path, monkeypatch):
    job = a_dataset(tmp_path, monkeypatch, "(root / 'file').write_bytes(bytes(10 ** 6))\n")
    monkeypatch.setenv("TBD_DATASETS_DIR", str(small_disk / "datasets"))
    failure = failure_of(carried_out(agent, job))
    assert failure["kind"] == "no_space"
    assert "No space left on device" in failure["message"]
    assert f"Its datasets are kept in {small_disk / 'datasets'} (" in failure["message"]


def test_a_disk_without_room_for_the_folder_of_a_dataset_is_no_space(agent, small_disk, tmp_path, monkeypatch):
    subprocess.run(["mount", "-o", "remount,nr_inodes=1", str(small_disk)], check=True)
    job = a_dataset(tmp_path, monkeypatch, "")
    monkeypatch.setenv("TBD_DATASETS_DIR", str(small_disk / "datasets"))
    assert failure_of(carried_out(agent, job))["kind"] == "no_space"


def test_an_attempt_can_be_cancelled_while_its_dataset_is_prepared(agent, tmp_path, monkeypatch):
    job = a_dataset(tmp_path, monkeypatch, "import time\ntime.sleep(600)\n")
    agent.start(job)
    until(lambda: processes.with_token(job["token"]))
    agent.stop(job["attempt_id"], "cancelled")
    assert failure_of(log_of(agent, job))["kind"] == "cancelled"
    assert not processes.with_token(job["token"])
