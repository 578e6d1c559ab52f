"""With what Ray knows kept on disk, the loss of its head takes no training with it (docs/operate/several_hosts.md)."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.bench import HEAD, Bench, Layout, running, trainers
from tests.cluster.test_gang import spec
from tests.support.service import until

pytestmark = pytest.mark.after_change


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Bench]:
    every = Layout.of_this_machine()
    own = {"RAY_gcs_storage": "rocksdb", "RAY_gcs_storage_path": str(tmp_path), "TBD_RAY_WAIT_S": "90"}
    with running({name: every[name] for name in (HEAD, "one")}, 60.0, **own) as bench:
        yield bench


@pytest.mark.timeout(400)
@pytest.mark.parametrize("server_too", [False, True], ids=["ray", "ray and the server"])
def test_a_head_that_is_killed_and_started_again_finds_its_trainings_going_on(kept: Bench, server_too: bool) -> None:
    experiment = kept.service.submit(spec("1x1", ("one",), steps=300, options={"step_time_s": 0.2}))
    until(lambda: trainers(kept.hosts["one"]), 60)
    before = set(trainers(kept.hosts["one"]))
    for pid, command in kept.hosts[HEAD].processes().items():
        if server_too or any(word in command for word in ("/gcs_server ", "/raylet ")):
            os.kill(pid, signal.SIGKILL)
    kept.start_ray(HEAD)
    if server_too:
        kept.service.start()
    until(lambda: HEAD in kept.available(), 60, 0.5)
    assert set(trainers(kept.hosts["one"])) == before
    (run,) = kept.service.wait(experiment, 120, 0.5)
    assert (run["state"], len(run["attempts"])) == ("completed", 1)
