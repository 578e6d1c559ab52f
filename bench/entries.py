"""Entries of an event log stored a second / metrics that MLflow stores, both on SQLite, on the same disk.

Each side writes from one process of its own, as many at once as its own clients do at most: tbd's reconciler a batch of
a log that it fetched, MLflow's client a ``log_batch``. A commit is on the disk before the next begins (``synchronous``
FULL, SQLite's default and MLflow's).
"""

import itertools
import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import filled
from bench.ingest import long_log
from bench.pages import mlflow_python
from bench.ratio import Ratio, in_turn, ratio
from orchestrator.db.store import SqlStore
from orchestrator.services.reconcile.fetch_log import BATCH

ENTRIES = 20_000

# Metrics of one run by steps; prints how many a second.
_MLFLOW = """
import sys, time
from mlflow.entities import Metric
from mlflow.tracking import MlflowClient
client, count, batch = MlflowClient(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
run = client.create_run(client.create_experiment(f"bench-{time.time_ns()}")).info.run_id
began = time.perf_counter()
for first in range(0, count, batch):
    steps = range(first, first + batch)
    client.log_batch(run, [Metric("step_time_s", 0.1 + step % 7, 1700000000000 + step, step) for step in steps])
print(count / (time.perf_counter() - began))
"""


@dataclass(frozen=True)
class Both:
    """``store``: with an attempt; ``python``: one that has MLflow, whose own database lies in ``folder``."""

    store: SqlStore
    attempt_id: str
    python: str
    folder: Path


@contextmanager
def rig() -> Iterator[Both]:
    with tempfile.TemporaryDirectory(prefix="tbd-bench-") as place:
        folder = Path(place)
        python = mlflow_python(folder)
        with closing(SqlStore(f"sqlite:///{folder / 'tbd.sqlite3'}")) as store:
            filled.fill(store, ended=1)
            (run, *_) = store.runs(limit=1).items
            assert run.attempt
            yield Both(store, run.attempt.id, python, folder)


def measure(both: Both, pairs: int) -> Ratio:
    """The ratio; the first of each makes files and tables, and does not count."""
    log = [json.loads(line) for line in long_log(ENTRIES, "bench").splitlines()]
    names = (f"node-{number}" for number in itertools.count())

    def entries_s() -> float:
        node, began = next(names), time.perf_counter()
        for first in range(0, len(log), BATCH):
            both.store.append_entries(both.attempt_id, node, log[first : first + BATCH])
        return len(log) / (time.perf_counter() - began)

    def metrics_s() -> float:
        command = [both.python, "-c", _MLFLOW, f"sqlite:///{both.folder / 'mlflow.db'}", str(ENTRIES), str(BATCH)]
        told = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
        return float(told.splitlines()[-1])

    entries_s()
    metrics_s()
    return ratio("log entries stored a second / MLflow's log_batch", ">= 10", *in_turn(pairs, entries_s, metrics_s))
