"""Devices are held in Ray's own books: other users of the Ray cluster and our runs do not meet."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.cluster.bench import HEAD, Bench
from tests.cluster.test_gang import spec
from tests.support.service import until

pytestmark = pytest.mark.after_change


def on_head(bench: Bench, *words: str) -> "subprocess.Popen[str]":
    head = bench.hosts[HEAD]
    command = [sys.executable, "-m", "tests.cluster.other_user", head.address(), *words]
    return head.start(*command, environment=bench.environment(HEAD))


def groups(bench: Bench) -> list[str]:
    """Names of the placement groups of the cluster."""
    out, _ = on_head(bench, "groups").communicate(timeout=60)
    names = out.split()[-1:] if out.strip() == "none" else out.split()
    return [name for name in names if name != "none"]


@contextmanager
def another_user(bench: Bench, host: str) -> Iterator[None]:
    """Somebody who holds the core of ``host`` in Ray."""
    process = on_head(bench, "take", bench.hosts[host].address())
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "taken"
        yield
    finally:
        bench.hosts[HEAD].signal(process)
        process.communicate(timeout=60)


def the_run(bench: Bench, experiment: str) -> dict[str, Any]:
    (run,) = bench.service.runs(experiment)
    return dict(run)


def test_a_run_waits_for_another_user_of_ray_with_the_reason_and_runs_when_he_has_gone(bench: Bench) -> None:
    with another_user(bench, "one"):
        experiment = bench.service.submit(spec())
        until(lambda: "another user of Ray" in (the_run(bench, experiment)["reason"] or ""), 60, 0.5)
        assert the_run(bench, experiment)["state"] == "queued"
        assert groups(bench) == []  # half a gang holds nothing
    (run,) = bench.service.wait(experiment, 120)
    assert run["state"] == "completed", run


def test_what_a_run_holds_is_named_after_its_attempt_and_given_back_at_its_end(bench: Bench) -> None:
    experiment = bench.service.submit(spec(steps=1_000_000, min_measure_s=3600))
    until(lambda: the_run(bench, experiment)["state"] == "running", 60, 0.5)
    (attempt,) = the_run(bench, experiment)["attempts"]
    assert groups(bench) == [f"tbd-held-{attempt['id']}"]
    bench.service.call("POST", f"/api/v1/experiments/{experiment}/cancel")
    bench.service.wait(experiment, 60)
    until(lambda: groups(bench) == [], 30, 1.0)
