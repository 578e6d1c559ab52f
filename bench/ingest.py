"""How long other clients wait while a server takes in a long log.

Each of the other clients is a thread with a connection of its own that asks again and again, as a browser or a script
does; they are few, so that they wait for the server and not for each other.
"""

import http.client
import json
import statistics
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from bench.ratio import Ratio, ratio
from tests.replays import replay
from tests.support.service import Service, running_service

ENTRIES = 100_000
PAUSE_S = 0.02  # between two requests of a client
QUIET_S = 5.0  # how long they ask without an import beside them
MOST_WAIT_S = 0.1
SPEC = {
    "name": "beside-an-import",
    "model": "sleep",
    "framework": "sleep",
    "per_device_batch_size": 1,
    "repeats": 1,
    "max_repeats": 1,
    "nodes": {"names": ["nowhere"]},
}
ASKED: Mapping[str, tuple[str, str, object]] = {
    "GET /experiments": ("GET", "/api/v1/experiments", None),
    "GET /nodes": ("GET", "/api/v1/nodes", None),
    "POST /experiments": ("POST", "/api/v1/experiments", SPEC),
}


def long_log(entries: int, name: str) -> bytes:
    """A log of ``entries`` entries: a recorded one whose timed phase goes on and on. ``name`` tells it from others."""
    recorded = replay.entries_of("good_sleep")
    first = next(n for n, one in enumerate(recorded) if one["kind"] == "interval")
    last = max(n for n, one in enumerate(recorded) if one["kind"] == "loss")
    head, timed, tail = recorded[:first], recorded[first + 2 : last + 1], recorded[last + 1 :]
    head[0]["data"]["run_id"] = name
    timed = [one for one in timed if one["kind"] in ("interval", "loss")]
    lasts_s = (timed[-2]["t"] - timed[0]["t"]) * len(timed) / (len(timed) - 2)
    steps = len(timed) // 2
    lines: list[bytes] = []

    def add(one: dict[str, object], later: int) -> None:
        data = dict(one["data"])  # type: ignore[call-overload]
        for step in ("first_step", "step", "steps"):
            if step in data:
                data[step] += later * steps
        if one["kind"] == "log_closed":
            data["entries"] = len(lines) + 1
        moved = {**one, "seq": len(lines) + 1, "data": data}
        for clock in ("t", "wall"):
            moved[clock] = one[clock] + later * lasts_s  # type: ignore[operator]
        lines.append(json.dumps(moved, separators=(",", ":")).encode())

    for one in head + recorded[first : first + 2]:
        add(one, 0)
    turns = (entries - len(head) - 2 - len(tail)) // len(timed)
    for turn in range(turns):
        for one in timed:
            add(one, turn)
    for one in tail:
        add(one, turns - 1)
    return b"\n".join(lines) + b"\n"


@contextmanager
def rig() -> Iterator[Service]:
    """A service on local nodes: no Ray beside it takes of the cores that are measured."""
    with running_service(TBD_CLUSTER="local") as service:
        yield service


@dataclass
class Client:
    """Asks one thing again and again; ``waits_s`` is how long each answer took."""

    url: str
    asked: tuple[str, str, object]
    waits_s: list[float] = field(default_factory=list)

    def go_on(self, ended: threading.Event) -> None:
        method, path, body = self.asked
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=120)
        sent = None if body is None else json.dumps(body).encode()
        while not ended.is_set():
            began = time.perf_counter()
            connection.request(method, path, sent, {"Content-Type": "application/json"} if sent else {})
            answer = connection.getresponse()
            answer.read()
            self.waits_s.append(time.perf_counter() - began)
            if answer.status >= 400:
                raise RuntimeError(f"{method} {path}: status {answer.status}")
            time.sleep(PAUSE_S)
        connection.close()


@contextmanager
def asking(service: Service) -> Iterator[Mapping[str, list[float]]]:
    """What each client waited, in seconds, while the block ran."""
    clients = {name: Client(service.url, asked) for name, asked in ASKED.items()}
    ended = threading.Event()
    threads = [threading.Thread(target=one.go_on, args=(ended,)) for one in clients.values()]
    for thread in threads:
        thread.start()
    try:
        yield {name: one.waits_s for name, one in clients.items()}
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def take_in(service: Service, log: bytes) -> float:
    """Seconds that an import took."""
    connection = http.client.HTTPConnection(urlsplit(service.url).netloc, timeout=600)
    began = time.perf_counter()
    connection.request("POST", "/api/v1/ingest", log, {"Content-Type": "application/x-ndjson"})
    answer = connection.getresponse()
    told = answer.read()
    connection.close()
    if answer.status != 201:
        raise RuntimeError(f"the log was not taken: {told[:500]!r}")
    return time.perf_counter() - began


def measure(service: Service, pairs: int) -> Ratio:
    """The longest wait of the client that fares worst, over what is wanted."""
    worst = []
    for turn in range(pairs):
        with asking(service) as without:
            time.sleep(QUIET_S)
        log = long_log(ENTRIES, f"import-{turn}-{time.time_ns()}")
        with asking(service) as beside:
            taken_s = take_in(service, log)
        print(f"  {ENTRIES} entries, {len(log) / 1e6:.0f} MB, in {taken_s:.1f} s", file=sys.stderr)
        for name in ASKED:
            print(f"    {name:<18} without {_told(without[name])}, beside {_told(beside[name])}", file=sys.stderr)
        sys.stderr.flush()
        worst.append(max(wait for waits in beside.values() for wait in waits))
    name = f"longest wait of other clients while a log of {ENTRIES} entries is taken in / 0.1 s"
    return ratio(name, "<= 1", worst, [MOST_WAIT_S] * pairs)


def _told(waits_s: list[float]) -> str:
    p95 = statistics.quantiles(waits_s, n=20, method="inclusive")[-1]
    return f"p95 {1e3 * p95:.0f} ms, max {1e3 * max(waits_s):.0f} ms (n={len(waits_s)})"
