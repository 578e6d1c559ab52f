"""A server on a database with 10,000 runs that go on, from its start to its being ready / on an empty one.

The runs are on nodes that the server has not met yet, and does not meet. Ready is what ``/readyz`` says: it takes
requests.
"""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from sqlalchemy import Connection

from bench.ratio import Ratio, in_turn, ratio
from orchestrator.db.experiment import experiments
from orchestrator.db.reading import rows
from orchestrator.db.run import runs
from orchestrator.db.store import SqlStore
from orchestrator.domain.runs.run import Run, RunState
from tests.contract import store_scenes as scene
from tests.support.service import Service, until
from tests.unit import builders as make

LIVE, PART = 10_000, 1000
PATIENCE_S = 600.0


@contextmanager
def rig() -> Iterator[dict[str, Path]]:
    with tempfile.TemporaryDirectory(prefix="tbd-bench-") as folder:
        places = {name: Path(folder) / name / "data" for name in ("live", "none")}
        for place in places.values():
            place.mkdir(parents=True)
        store = SqlStore(f"sqlite:///{places['live'] / 'tbd.sqlite3'}")
        for part in range(LIVE // PART):
            _add(store, part)
        store.close()
        yield places


def _add(store: SqlStore, part: int) -> None:
    """An experiment whose runs go on, one on each of ``PART`` nodes."""
    of = scene.experiment(at=float(part))
    going = []
    for number, run in enumerate(scene.runs_for(of, PART)):
        attempt = scene.attempt_of(run, placement=make.placement(f"n{number}"), created_at=1.0, started_at=2.0)
        going.append(replace(run, state=RunState.RUNNING, attempts=(attempt,), started_at=2.0))
    store.database.write(partial(experiments.add, new=experiments.prepare(of, going, None)))
    store.database.write(partial(_add_attempts, going=going))


def _add_attempts(connection: Connection, going: list[Run]) -> None:
    runs.INSERT_ATTEMPT.many(connection, [rows.attempt_row(attempt) for run in going for attempt in run.attempts])


def ready_s(data: Path) -> float:
    """Seconds from the start of a server on ``data`` until it is ready."""
    began = time.perf_counter()
    service = Service(data, TBD_CLUSTER="local", TBD_FENCE_S="3600").start()
    try:
        until(lambda: service.call("GET", "/readyz"), PATIENCE_S)
        return time.perf_counter() - began
    finally:
        service.stop()


def measure(places: dict[str, Path], pairs: int) -> Ratio:
    live, none = in_turn(pairs, lambda: ready_s(places["live"]), lambda: ready_s(places["none"]))
    return ratio(f"start to ready with {LIVE} runs that go on / with none", "<= 2, and 1 s", live, none)
