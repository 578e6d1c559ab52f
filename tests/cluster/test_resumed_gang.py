"""A run to convergence over two hosts loses a process, then a host: it goes on from the folder that all hosts share."""

import os
import signal
from typing import Any

import pytest

from tests.cluster.bench import Bench, trainers
from tests.support.service import until

EVERY, MOST = 4, 48
SPEC = {
    "name": "resumed",
    "model": "resnet-50",
    "framework": "pytorch",
    "strategy": "ddp",
    "topology": "2x1",
    "fabric": "ethernet",
    "size": "tiny",
    "per_device_batch_size": 4,
    "data": "photographs",
    "mode": "convergence",
    "evaluate_every": EVERY,
    "max_steps": MOST,
    "nodes": {"names": ["one", "two", "three"]},
    "repeats": 1,
    "timeout_s": 300,
}

pytestmark = [
    pytest.mark.framework("pytorch"),
    pytest.mark.usefixtures("photographs"),
    pytest.mark.timeout(600),
    pytest.mark.after_change,
]


def trainer_of(bench: Bench, rank: int) -> tuple[str, int]:
    """(host, process id) of the process that trains ``rank``, without those of its own that read the data."""
    found = [
        (name, pid)
        for name, host in bench.hosts.items()
        for pid, command in trainers(host).items()
        if f"/worker{rank}" in command
    ]
    return min(found, key=lambda one: one[1])


def trained(bench: Bench) -> int:
    """Steps of the newest checkpoint of any run."""
    return max((int(path.name[:12]) for path in bench.checkpoints.glob("*/*.npz")), default=0)


def of_kind(bench: Bench, run: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """Of the last attempt: what a lost host has not sent yet is lost with it."""
    return [entry["data"] for log in bench.logs(run["id"]).values() for entry in log if entry["kind"] == kind]


def ended(bench: Bench, run: dict[str, Any]) -> set[str]:
    """The digest of each replica's weights at the end."""
    return {one["sha256"] for one in of_kind(bench, run, "replica")}


def curve(run: dict[str, Any]) -> list[tuple[int, float, float]]:
    return [(point["step"], point["quality"], point["loss"]) for point in run["summary"]["convergence"]["curve"]]


def test_a_gang_that_loses_a_process_and_then_a_host_ends_as_one_that_was_left_alone(bench: Bench) -> None:
    (whole,) = bench.service.wait(bench.service.submit(SPEC), 200)
    assert whole["state"] == "completed", whole
    until(lambda: not trained(bench), 30)
    experiment = bench.service.submit(SPEC)
    until(lambda: trained(bench) >= 2 * EVERY, 120, 0.01)
    os.kill(trainer_of(bench, rank=1)[1], signal.SIGKILL)
    killed_at = trained(bench)
    seen = [killed_at]

    def has_gone_on() -> bool:
        seen.append(trained(bench))
        return seen[-1] > killed_at + EVERY

    until(has_gone_on, 120, 0.01)
    # One that began anew would have replaced them by such of fewer steps.
    assert seen == sorted(seen)
    lost, _ = trainer_of(bench, rank=0)
    bench.hosts[lost].cut_power()
    try:
        (run,) = bench.service.wait(experiment, 200)
    finally:
        bench.network.boot(lost)
        bench.start_ray(lost)
        until(lambda: lost in bench.available(), 120, 0.5)
    assert run["state"] == "completed", run
    first, second, _ = run["attempts"]
    assert (first["failure"]["kind"], first["failure"]["signal"]) == ("crashed", "SIGKILL")
    assert second["failure"]["kind"] == "node_lost"
    (resumed,) = of_kind(bench, run, "resumed")
    assert resumed["attempt_id"] == second["id"]
    assert resumed["step"] >= seen[-1]
    assert run["summary"]["convergence"]["resumed"]["step"] == resumed["step"]
    assert lost not in bench.logs(run["id"])
    assert len(ended(bench, run)) == 1
    assert ended(bench, run) == ended(bench, whole)
    assert curve(run) == curve(whole)
    # The agent that had rank 0 at the end has removed them.
    until(lambda: not trained(bench), 30)
