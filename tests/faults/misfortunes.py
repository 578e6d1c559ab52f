"""What befalls a service between its deaths, drawn by chance: each function is a misfortune of one life.

The service never hears of them; ``tests/faults/kills.py`` holds what came of them against the promises.
"""

import os
import random
import shutil
import signal
import socket
import threading
import time
import uuid
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url

from orchestrator.db.store import SqlStore
from tests.faults.test_bad_luck import sleep
from tests.support.service import Service

ONE_KEY = 50  # submissions with one key, at once
CUT = 0.5  # of the commits that a wire carries while it is bad


@dataclass
class Life:
    """A life of a service. ``acknowledged``: experiments of which clients were told, at any time; it grows.
    ``notes``: a folder that is named in the environment of all its processes."""

    service: Service
    url: str
    folder: Path
    notes: Path
    acknowledged: Collection[str]
    wire: "Wire | None"
    fence_s: float
    chance: random.Random

    def seconds(self, most: float) -> None:
        time.sleep(self.chance.uniform(0.1, most))


def quiet(life: Life) -> None:
    life.seconds(3.0)


def files_copied(life: Life) -> None:
    """Database and WAL, as they lie there at some moment, are all that a successor needs."""
    if not life.url.startswith("sqlite"):
        quiet(life)
        return
    life.seconds(1.0)
    copies = life.folder / f"copy-{uuid.uuid4().hex}"
    copies.mkdir()
    told = set(life.acknowledged)
    os.kill(life.service.pid, signal.SIGSTOP)
    try:
        database = Path(str(make_url(life.url).database))
        for name in (database.name, f"{database.name}-wal"):
            if (database.parent / name).exists():
                shutil.copy(database.parent / name, copies / name)
    finally:
        os.kill(life.service.pid, signal.SIGCONT)
    with closing(SqlStore(f"sqlite:///{copies / database.name}")) as store:
        sound = store.database.read(lambda connection: connection.execute(text("PRAGMA integrity_check")).scalar())
        assert sound == "ok", f"a copy of the files is damaged: {sound}"
        for experiment in told:
            assert store.runs_of(experiment), f"a copy of the files has lost {experiment}"
    shutil.rmtree(copies)


def long_reader(life: Life) -> None:
    """Somebody reads for long in one transaction: no checkpoint goes beyond it, no row that it sees is cleared away."""
    engine = create_engine(life.url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":  # whose driver begins one with the first write only
            connection.exec_driver_sql("BEGIN")
        counted = text("SELECT count(*) FROM run")
        before = connection.execute(counted).scalar()
        life.seconds(4.0)
        if engine.dialect.name == "sqlite":
            assert connection.execute(counted).scalar() == before, "it was no reader"
    engine.dispose()


def one_key(life: Life) -> None:
    """Fifty submissions with one key make one experiment, whoever of them is answered."""
    spec, key = sleep(max_steps=5, min_measure_s=3600, name="one key"), uuid.uuid4().hex

    def submit(_: int) -> str | None:
        with suppress(OSError, HTTPException):
            return str(life.service.call("POST", "/api/v1/experiments", spec, Idempotency_Key=key)["id"])
        return None

    with ThreadPoolExecutor(ONE_KEY) as pool:
        made = set(pool.map(submit, range(ONE_KEY))) - {None}
    assert len(made) <= 1, f"one key has made {made}"


def frozen(module: str) -> Callable[[Life], None]:
    """Processes of ``module`` stand still, for less or more than the fence, and go on."""

    def freeze(life: Life) -> None:
        pids = [pid for pid in _of(life.notes) if module in _command(pid)]
        for pid in pids:
            _told(pid, signal.SIGSTOP)
        time.sleep(life.chance.uniform(0.2, 3.0) * life.fence_s)
        for pid in pids:
            _told(pid, signal.SIGCONT)
        life.seconds(3.0)

    freeze.__name__ = f"{module} frozen"
    return freeze


def agent_killed(life: Life) -> None:
    for pid in _of(life.notes):
        if "workers.node" in _command(pid):
            _told(pid, signal.SIGKILL)
    life.seconds(5.0)


def commits_cut(life: Life) -> None:
    """The connection to the database breaks behind a commit, before its answer is here."""
    if life.wire is None:
        quiet(life)
        return
    life.wire.bad = CUT
    time.sleep(life.chance.uniform(1.0, 5.0))
    life.wire.bad = 0.0


SHORT = (quiet, files_copied, long_reader, one_key, agent_killed, commits_cut)
LONG = (frozen("workers.node"), frozen("workers.trainer"))


def _of(notes: Path) -> list[int]:
    """Processes whose environment names the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if str(notes).encode() in path.read_bytes():
                found.append(int(path.parent.name))
    return found


def _command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def _told(pid: int, what: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, what)


class Wire:
    """A port that leads to PostgreSQL's. ``bad``: the share of commits of which the answer never comes back, because
    both ends find the connection closed; they are carried out."""

    def __init__(self, port: int) -> None:
        self._to, self.bad, self.cuts = port, 0.0, 0
        self._chance = random.Random(port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                try:
                    far = socket.create_connection(("127.0.0.1", self._to))
                except OSError:
                    near.close()
                    continue
                lost = threading.Event()
                for ends in ((near, far, lost, True), (far, near, lost, False)):
                    threading.Thread(target=self._carry, args=ends, daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, lost: threading.Event, asks: bool) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if asks and b"COMMIT\0" in data and self._chance.random() < self.bad:
                    lost.set()
                if not asks and lost.is_set():
                    self.cuts += 1
                    break
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def of_life(chance: random.Random, patient: bool) -> Callable[[Life], Any]:
    """A misfortune; a long one only for the ``patient``."""
    return chance.choice((*SHORT, *LONG) if patient else SHORT)
