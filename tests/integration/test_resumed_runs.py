"""A trainer is killed in mid-training: the run's next attempt goes on from the checkpoint, through a real service."""

import os
import signal
import uuid
from pathlib import Path

import pytest

from orchestrator.db.store import SqlStore
from tests.support import processes
from tests.support.folders import files_below
from tests.support.service import Service, until

SPEC = {
    "name": "resumed",
    "model": "resnet-50",
    "framework": "pytorch",
    "per_device_batch_size": 4,
    "size": "tiny",
    "data": "photographs",
    "mode": "convergence",
    "evaluate_every": 4,
    "max_steps": 40,
    "repeats": 1,
    "timeout_s": 110.0,
}

pytestmark = [pytest.mark.framework("pytorch"), pytest.mark.after_change]


def trainers(mark: str) -> list[int]:
    """Ids of the processes that train, without those of their own that read the data."""
    found = {}
    for pid in processes.of_attempts(mark):
        try:
            parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"workers.trainer" in words:
            found[pid] = parent
    return [pid for pid, parent in found.items() if parent not in found]


@pytest.mark.usefixtures("photographs")
def test_a_killed_training_goes_on_in_the_next_attempt_and_ends_with_the_same_weights(tmp_path: Path) -> None:
    mark = f"mark-{uuid.uuid4()}"
    service = Service(tmp_path / "data", TBD_CLUSTER="local", TEST_MARK=mark).start()
    try:
        (whole,) = service.wait(service.submit(SPEC), timeout_s=110)
        assert whole["state"] == "completed", whole
        until(lambda: not files_below(tmp_path, ".npz"))
        experiment = service.submit({**SPEC, "name": "killed"})
        until(lambda: len(files_below(tmp_path, ".npz")) == 2, timeout_s=60, poll_s=0.01)
        (pid,) = trainers(mark)
        os.kill(pid, signal.SIGKILL)
        (run,) = service.wait(experiment, timeout_s=110)
        assert run["state"] == "completed", run
        first, second = run["attempts"]
        assert (first["failure"]["kind"], first["failure"]["signal"]) == ("crashed", "SIGKILL")
        store = SqlStore(f"sqlite:///{tmp_path}/data/tbd.sqlite3")
        (resumed,) = of(store, second, "resumed")
        assert resumed["step"] >= 8
        assert resumed["attempt_id"] == first["id"]
        assert of(store, second, "finished") == of(store, whole["attempts"][0], "finished")
        assert curve(run) == curve(whole)
        assert run["summary"]["convergence"]["resumed"]["step"] == resumed["step"]
        assert run["validity"]["grade"] != "broken"
        # Nobody can go on from what is left of a run that is over.
        until(lambda: not files_below(tmp_path, ".npz"))
    finally:
        service.stop()


def curve(run):
    return [(point["step"], point["quality"], point["loss"]) for point in run["summary"]["convergence"]["curve"]]


def of(store, attempt, kind):
    return [entry["data"] for entry in store.entries(attempt["id"], kinds=[kind])]
