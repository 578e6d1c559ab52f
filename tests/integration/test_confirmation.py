"""A confirmation that is really carried out: two commits of a model in git alternate in fresh processes, the server is
killed in it, and the next one goes on. Its nights are written here; nights that are real: ``make gate-demo``."""

import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.gate_demo import SPEC, Repository
from orchestrator.db.store import SqlStore
from orchestrator.domain.asked.plan import SIDE, SUITE
from orchestrator.domain.runs.run import ExperimentState, RunState
from orchestrator.services.context import Context
from orchestrator.services.facts.catalog import load_catalog
from orchestrator.services.reconcile.reconciler import Bell
from orchestrator.services.schedule import schedules
from orchestrator.services.schedule.scheduler import Scheduler
from tests.integration.service_rig import environment
from tests.support.schedule_rig import WHO, HandClock, Nodes
from tests.support.service import Service, until
from tests.unit import builders
from tests.unit.api.api_rig import fingerprint_of, rate
from workers.node.inventory import cpu_devices

DAY_S = 86400.0
OLD_S, NEW_S = 0.004, 0.006  # of a step
NIGHT_RUN_S = 10.0
DEVICE = cpu_devices(sorted(os.sched_getaffinity(0)), 1, "", 0)[0]["id"]  # that the service's node has


def lived(data_dir: Path, repository: Repository, commits: list[str]) -> None:
    """A night of one run for each of these commits, the last one today; of the last commit they are slower."""
    store = SqlStore(f"sqlite:///{data_dir / 'tbd.sqlite3'}")
    clock = HandClock(time.time() - len(commits) * DAY_S)
    context = Context(store, Nodes(), load_catalog((repository.folder,)), clock, lambda: None)  # type: ignore[arg-type]
    spec = yaml.safe_load(SPEC) | {"max_measure_s": 0.4, "per_device_batch_size": 1}
    made = schedules.add(context, {"name": "nightly", "cron": "0 2 * * *", "spec": spec, "misfire": "skip"}, WHO)[0]
    scheduler = Scheduler(context, Bell())
    for number, commit in enumerate(commits):
        due = store.schedule(made.id).due_at
        assert due is not None
        clock.time = due
        scheduler.look()
        experiment = str(store.last_fires([made.id])[made.id].experiment_id)
        (run,) = store.runs_of(experiment)
        told = fingerprint_of(interpreter="system", suite={"commit": commit, "dirty_sha256": None})
        told |= {"subject_key": commit, "rig": {"nodes": {socket.gethostname(): {}}, "device_ids": [DEVICE]}}
        assert store.begin_attempt(run.id, builders.attempt(run.id, created_at=due))
        for before, after in ((RunState.PLACING, RunState.RUNNING), (RunState.RUNNING, RunState.COLLECTING)):
            assert store.move_run(run.id, before, after, at=due)
        level = (160.0 if commit == commits[-1] else 240.0) * (1 + 0.001 * (number % 3))
        assert store.conclude(
            run.id, RunState.COMPLETED, at=due + NIGHT_RUN_S, analysis=rate(level), fingerprint=told, failure=None
        )
        assert store.end_experiment(experiment, ExperimentState.COMPLETED, due + NIGHT_RUN_S)
    store.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Service, str, str]]:
    repository = Repository(tmp_path / "suite")
    old = repository.commit(OLD_S, "as it was")
    new = repository.commit(NEW_S, "a costly operator")
    (tmp_path / "data").mkdir()
    lived(tmp_path / "data", repository, [old] * 6 + [new] * 2)
    more = {"TBD_SUITE_PATH": str(repository.folder), "TBD_GATE_BUDGET_RATIO": "3"}
    service = Service(tmp_path / "data", **environment(tmp_path, **more)).start()
    yield service, old, new
    service.stop()


@pytest.mark.after_change
def test_two_commits_are_tried_side_by_side_through_a_kill_of_the_server(served: tuple[Service, str, str]) -> None:
    service, old, new = served

    def alert() -> Any:
        return next(iter(service.all("/api/v1/alerts")), None)

    trying = until(alert, timeout_s=300)
    experiment = trying["experiment_id"]
    until(lambda: [run for run in service.runs(experiment) if run["state"] == "completed"], timeout_s=300)
    service.stop(signal.SIGKILL)
    service.start()
    found = until(lambda: told if (told := alert())["state"] != "trying" else None, timeout_s=900, poll_s=0.5)
    assert found["state"] == "open", found["tried"]
    assert found["effect"]["ci_low"] < OLD_S / NEW_S - 1 + 0.1
    assert found["effect"]["ci_high"] < 0.0
    runs = service.runs(experiment)
    assert len(runs) % 2 == 0
    assert len({(run["plan"]["repetition"], run["plan"]["pins"][SIDE]) for run in runs}) == len(runs)
    for run in runs:
        commit = {"old": old, "new": new}[run["plan"]["pins"][SIDE]]
        assert run["plan"]["pins"][SUITE] == commit
        assert run["fingerprint"]["subject"]["suite"] == {"commit": commit, "dirty_sha256": None}
    assert {share["devices"][0]["id"] for run in runs for share in run["placement"]} == {DEVICE}
