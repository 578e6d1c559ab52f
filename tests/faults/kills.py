"""A service killed again and again, at every call of its ports and at random, under four clients, and befallen by
misfortunes meanwhile: what came of it.

Trainings note by themselves that they lived (``SLEEP_NOTES``); the checker holds that, what clients were told and
what is on record against the promises.
"""

import random
import signal
import threading
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlalchemy.engine import make_url

from orchestrator.db.store import SqlStore
from orchestrator.db.tables.schema import result
from orchestrator.domain.ports import Cluster, Store
from orchestrator.domain.runs.run import TERMINAL, RunState
from orchestrator.services.reconcile.situation import Lookout
from tests.faults.deadly import CALLS, KILL
from tests.faults.misfortunes import Life, Wire, of_life
from tests.faults.test_bad_luck import sleep
from tests.support.promises import Breach, Evidence, Span, Training, breaches
from tests.support.service import Service, until

CLIENTS = 4
MOST_ACTIVE = 20  # experiments, beyond which clients wait: what is left at the end is to be carried out within END_S
FENCE_S = 15.0  # shorter than a service's own, so that there is time for lives beyond it
LEAST = 3  # kills, however little time there is
CALL_S = 10.0  # until a call has to come
PATIENCE_S = 300.0  # of time that is left, for a misfortune that lasts a minute
END_S = 240.0  # until all is over, when it is killed no more
SLACK_S = 60.0  # on a busy machine
NEVER = "nothing:before:1"


class Killed(Service):
    """A service that dies as it is told at its next start."""

    module = "tests.faults.deadly"

    def begin(self, kill: str) -> bool:
        """Whether it came up before it died."""
        self._environment[KILL] = kill
        try:
            self.start(end_runs=kill == NEVER)
        except RuntimeError:
            return False
        return True

    def lives(self) -> bool:
        assert self._process is not None
        return self._process.poll() is None


class Kills:
    """Lives of one service in ``folder`` over the database at ``url``, on a cluster of one ``kind``. The service itself
    reaches its database by ``wire``, if there is one."""

    def __init__(self, folder: Path, url: str, kind: str, seed: int, wire: Wire | None = None) -> None:
        self.url, self.kills, self.kind = url, 0, kind
        self._folder, self._wire = folder, wire
        self._random = random.Random(seed)
        self._notes, self._calls = folder / "notes", folder / "calls"
        for one in (self._notes, self._calls):
            one.mkdir(parents=True)
        reached = make_url(url).set(port=wire.port).render_as_string(hide_password=False) if wire else url
        given = {"TBD_CLUSTER": kind, "TBD_DATABASE_URL": reached, "SLEEP_NOTES": str(self._notes)}
        given["TBD_FENCE_S"] = str(FENCE_S)
        self._service = Killed(folder / "data", **given, **{CALLS: str(self._calls)})
        self._killed_at: list[float] = []
        self._over = threading.Event()
        self._acknowledged: dict[str, list[str]] = {}
        self._told: dict[str, set[RunState]] = defaultdict(set)
        self._clients = [threading.Thread(target=self._ask, args=(number,)) for number in range(CLIENTS)]
        self._plans = self._ways_to_die()
        self._tried: Counter[tuple[str, str]] = Counter()
        self.hit: set[tuple[str, str]] = set()
        self.befallen: Counter[str] = Counter()

    def live(self, patient: bool) -> None:
        """A life of the server, which ends by SIGKILL: at a call, or behind a misfortune, a long one if ``patient``."""
        method, when = next(self._plans)
        self._tried[method, when] += 1
        came_up = self._service.begin(f"{method}:{when}:{self._random.randint(1, 3)}")
        if came_up and method == "nothing":
            self._befall(of_life(self._random, patient))
        end = time.monotonic() + (0.0 if method == "nothing" else CALL_S)
        while came_up and self._service.lives() and time.monotonic() < end:
            time.sleep(0.02)
        if self._service.lives():
            self._service.stop(signal.SIGKILL)
        else:
            self.hit.add((method, when))
        self.kills += 1
        self._killed_at.append(time.time())

    def _befall(self, misfortune: Callable[[Life], None]) -> None:
        life = Life(
            self._service, self.url, self._folder, self._notes, self._acknowledged, self._wire, FENCE_S, self._random
        )
        misfortune(life)
        self.befallen[misfortune.__name__] += 1

    def _ways_to_die(self) -> Iterator[tuple[str, str]]:
        """Before and after each method that was called so far, in turn; and somewhere."""
        while not self._service.url:
            yield "nothing", "before"
        while True:
            called = sorted(path.name for path in self._calls.iterdir())
            ways = [(method, when) for method in called for when in ("before", "after")]
            ways.sort(key=lambda way: (self._tried[way], self._random.random()))  # what is seldom called, too
            yield from ways[:3]
            yield "nothing", "before"

    def run(self, until_s: float, most: int = 10**9) -> Evidence:
        """Lives until then (``time.monotonic()``), or ``most`` of them; then one in peace, until all is over."""
        self.live(False)  # from now on there is somebody to ask
        for client in self._clients:
            client.start()
        try:
            while self.kills < min(LEAST, most) or (self.kills < most and time.monotonic() < until_s):
                self.live(time.monotonic() + PATIENCE_S < until_s)
            self._over.set()
            for client in self._clients:
                client.join()
            self._service.begin(NEVER)
            restarted = time.time()
            until(lambda: not self._active(), END_S, 0.5)
        finally:
            self._over.set()
            if self._service.lives():
                self._service.stop()
        return self._evidence(restarted)

    def _active(self) -> list[dict[str, Any]]:
        """Of the experiments that are not over as many as a page has."""
        return list(self._service.call("GET", "/api/v1/experiments?state=active")["items"])

    def _ask(self, number: int) -> None:
        """A client: it submits with one key until it is answered, cancels now and then, and looks."""
        chance = random.Random(f"{self._random.random()} {number}")
        while not self._over.wait(chance.uniform(0.2, 1.5)):
            steps, deadline = chance.choice((5, 50, 400)), chance.choice((None, 20.0))
            spec = sleep(max_steps=steps, min_measure_s=3600, name=f"client{number}", deadline_s=deadline)
            with suppress(OSError, HTTPException):
                if len(self._active()) < MOST_ACTIVE:
                    self._submit(spec, uuid.uuid4().hex)
                experiment = chance.choice(list(self._acknowledged))
                if chance.random() < 0.2:
                    self._service.call("POST", f"/api/v1/experiments/{experiment}/cancel")
                for run in self._service.runs(experiment):
                    if RunState(run["state"]) in TERMINAL:
                        self._told[run["id"]].add(RunState(run["state"]))

    def _submit(self, spec: dict[str, Any], key: str) -> None:
        while not self._over.is_set():
            with suppress(OSError, HTTPException):
                stored = self._service.call("POST", "/api/v1/experiments", spec, Idempotency_Key=key)
                self._acknowledged[stored["id"]] = []
                return
            time.sleep(0.1)

    def _evidence(self, restarted: float) -> Evidence:
        store = SqlStore(self.url)
        try:
            stored = _all_experiments(store)
            runs = {one: store.runs_of(one) for one in stored}
            changes = [one for experiment in runs for one in store.changes(experiment)]
            query = select(result.c.run_id, result.c.attempt_id)
            results = store.database.read(lambda connection: connection.execute(query).all())
            found = [run for of in runs.values() for run in of]
            attempts = [attempt for run in found for attempt in run.attempts]
            deadlines = {one: store.experiment(one).deadline_at for one in stored}
        finally:
            store.close()
        bound = FENCE_S + Lookout.FENCE_MARGIN_S + SLACK_S
        nodes = {node for attempt in attempts for node in attempt.placement.nodes}
        return Evidence(
            acknowledged=self._acknowledged,
            runs=runs,
            changes=changes,
            trainings=[training for path in self._notes.iterdir() if (training := _noted(path, nodes))],
            spans={one.id: Span(one.created_at, one.ended_at or float("inf")) for one in attempts},
            fence_s=FENCE_S,
            results={run: [attempt] for run, attempt in results if attempt},
            told=self._told,
            due={run.id: max(due, restarted) + bound for run in found if (due := deadlines[run.experiment_id])},
            over={run.id: run.ended_at for run in found if run.ended_at is not None},
            contacts=dict.fromkeys(nodes, self._killed_at),
        )


def _all_experiments(store: SqlStore) -> list[str]:
    found: list[str] = []
    cursor = None
    while True:
        page = store.experiments(limit=200, cursor=cursor)
        found += [one.id for one in page.items]
        cursor = page.next_cursor
        if cursor is None:
            return found


def _noted(path: Path, nodes: set[str]) -> Training | None:
    """What a training has noted; None where it was killed before it could."""
    begun = path.read_text()
    if not begun:
        return None
    return Training(path.name.rpartition(".")[0], next(iter(nodes), ""), float(begun), path.stat().st_mtime)


def all_methods() -> set[str]:
    """Of both ports."""
    return {name for port in (Store, Cluster) for name in dir(port) if not name.startswith("_")}


def told(kills: Kills, evidence: Evidence, broken: list[Breach]) -> str:
    """One line of what there was."""
    hit = sorted({method for method, _ in kills.hit} - {"nothing"})
    acknowledged = len(evidence.acknowledged)
    trained = f"{len(evidence.trainings)} trainings of {len(evidence.spans)} attempts"
    befallen = ", ".join(f"{name} {number}" for name, number in sorted(kills.befallen.items()))
    return (
        f"{kills.kills} kills ({kills.kind}), at {', '.join(hit)}; {befallen}; {acknowledged} acknowledged, {trained}; "
        f"{broken}"
    )


def check(
    folder: Path, url: str, kind: str, seed: int, until_s: float, most: int, wire: Wire | None = None
) -> tuple[Kills, Evidence, list[Breach]]:
    kills = Kills(folder, url, kind, seed, wire)
    evidence = kills.run(until_s, most)
    return kills, evidence, breaches(evidence)
