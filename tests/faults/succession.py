"""Two servers on one PostgreSQL and one Ray, of which the one that leads is killed again and again: nothing is lost.

    python -m tests.faults.succession --minutes 30

In each round, which takes a minute or as long as it needs, a run is under way, the leader is killed, another run is
submitted to the follower, and both are carried out exactly once. The killed one is started again, and follows. The last
line is JSON: the rounds, what was acknowledged, lost, or repeated, and the seconds from the kill to the next placement,
beside the lease.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.domain.around.server import LEASE_S
from tests.contract.postgresql_server import PostgresqlServer, installed
from tests.faults.ray_apart import ray_apart
from tests.faults.test_bad_luck import sleep
from tests.support.service import Service, until

PATIENCE_S = 180.0
STEP_S = 0.01


@dataclass
class Pair:
    """Two servers; ``submitted``: experiment -> steps of each of its runs, of all that was acknowledged."""

    servers: list[Service]
    submitted: dict[str, int] = field(default_factory=dict)
    placed_s: list[float] = field(default_factory=list)

    def leader(self) -> Service:
        """The one that leads; waits until there is one."""
        found: Service = until(lambda: next(filter(leads, self.servers), None), PATIENCE_S)
        return found

    def follower(self) -> Service:
        found: Service = until(lambda: next((one for one in self.servers if leads(one) is False), None), PATIENCE_S)
        return found

    def submit(self, server: Service, seconds: float) -> str:
        steps = int(seconds / STEP_S)
        spec = sleep(max_steps=steps, min_measure_s=3600, exclusive="device", options={"step_time_s": STEP_S})
        experiment = server.submit(spec)
        self.submitted[experiment] = steps
        return experiment

    def succeed(self, how: signal.Signals, long_s: float) -> tuple[Service, Service, list[str]]:
        """End the leader while a run is under way; (it, who leads now, what was submitted)."""
        former, heir = self.leader(), self.follower()
        long = self.submit(heir, long_s)
        until(lambda: heir.runs(long)[0]["state"] == "running", PATIENCE_S)
        at = time.monotonic()
        if how is signal.SIGSTOP:
            os.kill(former.pid, how)
        else:
            former.stop(how)
        soon = self.submit(heir, 1.0)
        until(lambda: heir.runs(soon)[0]["state"] != "queued", PATIENCE_S)
        self.placed_s.append(round(time.monotonic() - at, 1))
        return former, heir, [long, soon]

    def troubles(self, server: Service, experiments: list[str]) -> list[str]:
        """What is not as it has to be of experiments that are over, as ``server`` tells it."""
        found = []
        for experiment in experiments:
            for run in server.wait(experiment, PATIENCE_S, 0.3):
                intervals = server.all(f"/api/v1/runs/{run['id']}/intervals")
                steps = sum(one["n"] for one in intervals)
                if (run["state"], len(run["attempts"]), steps) != ("completed", 1, self.submitted[experiment]):
                    found.append(f"{run['id']} {run['state']}: {len(run['attempts'])} attempts, {steps} steps")
        return found


def leads(server: Service) -> bool | None:
    """None where it does not answer."""
    try:
        return bool(server.call("GET", "/readyz")["role"] == "leader")
    except OSError:
        return None


@contextmanager
def pair(folder: Path, url: str) -> Iterator[Pair]:
    """Two servers on the database at ``url`` and a Ray of their own; the first leads."""
    own = {"TBD_DATABASE_URL": url, "TBD_LOCK_DIR": str(folder / "locks"), "TBD_CPU_DEVICES": "2"}
    with ExitStack() as stack:
        around = stack.enter_context(ray_apart(folder, **own))
        around.pop("TBD_DATA_DIR", None)
        servers = [Service(folder / name, **around) for name in ("one", "two")]
        for one in servers:
            one.start(end_runs=False)
            stack.callback(stopped, one)
        until(lambda: servers[1].call("GET", "/readyz")["nodes"], PATIENCE_S)
        yield Pair(servers)


def stopped(server: Service) -> None:
    if leads(server) is not None:
        server.stop(signal.SIGKILL)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    options = parser.parse_args()
    folder, binaries = Path(tempfile.mkdtemp(prefix="tbd-succession-")), installed()
    assert binaries, "PostgreSQL is not installed"
    database = PostgresqlServer(binaries, Path(tempfile.mkdtemp(prefix="tbd-postgresql-")))
    database.create()
    database.start()
    try:
        database.execute("CREATE DATABASE tbd")
        with pair(folder, database.url("tbd")) as two:
            found, end = [], time.monotonic() + 60 * options.minutes
            while time.monotonic() < end:
                round_end = time.monotonic() + 60
                former, heir, experiments = two.succeed(signal.SIGKILL, 2 * LEASE_S)
                found += two.troubles(heir, experiments)
                former.start(end_runs=False)
                print(f"round {len(two.placed_s)}: placed after {two.placed_s[-1]} s; {found or 'nothing amiss'}")
                time.sleep(max(0.0, round_end - time.monotonic()))
            there = {one["id"] for one in two.leader().all("/api/v1/experiments")}
        print(json.dumps(summary(two, found, len(two.submitted.keys() - there))))
        return 1 if found else 0
    finally:
        database.stop()
        for one in (folder, database.folder):
            shutil.rmtree(one, ignore_errors=True)


def summary(two: Pair, found: list[str], lost: int) -> dict[str, Any]:
    median, most = statistics.median(two.placed_s), max(two.placed_s)
    return {
        "kills": len(two.placed_s),
        "acknowledged": len(two.submitted),
        "lost": lost,
        "amiss": found,
        "placed_s": {"median": median, "most": most},
        "lease_s": LEASE_S,
        "most_by_lease": round(most / LEASE_S, 2),
    }


if __name__ == "__main__":
    sys.exit(main())
