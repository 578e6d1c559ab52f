"""Lists of a server that stores much / of one that stores little more than a page, and what an idle server takes.

Both databases are filled by ``filled`` and served side by side; of each list the 95th percentiles are compared in turn.
"""

import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import psutil

from bench import filled
from bench.ratio import Ratio, in_turn, ratio
from orchestrator.db.store import SqlStore
from tests.support.service import Service

REQUESTS = 20  # of which the 95th percentile is taken
IDLE_S = 10.0
SHARE = 0.01  # of a core, for an idle server
MOST_BYTES = 300e6
PATHS = (
    "/experiments",
    "/experiments?label=kind%3Dstored",
    "/runs",
    "/runs?state=failed",
    "/runs?model=resnet-50",
    "/results",
    "/results?limit=1",
    "/results?framework=tensorflow",
    "/experiments/{newest}/runs",
    "/experiments/{newest}/results?limit=50",
)


@contextmanager
def serving(folder: Path, fill: Callable[[SqlStore], None]) -> Iterator[Service]:
    """A server on a database that ``fill`` filled; its nodes take nothing."""
    data = folder / "data"
    data.mkdir(parents=True)
    store = SqlStore(f"sqlite:///{data / 'tbd.sqlite3'}")
    fill(store)
    store.close()
    service = Service(data, TBD_CLUSTER="local").start()
    try:
        for node in service.call("GET", "/api/v1/nodes")["items"]:
            service.call("POST", f"/api/v1/nodes/{node['name']}/drain")
        yield service
    finally:
        service.stop()


@contextmanager
def little_and_much() -> Iterator[Mapping[str, Service]]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tbd-bench-")))
        little = stack.enter_context(serving(folder / "little", partial(filled.fill, ended=60, large_runs=300)))
        much = stack.enter_context(serving(folder / "much", partial(filled.fill, ended=2000, large_runs=20_000)))
        yield {"little": little, "much": much}


@contextmanager
def a_long_queue() -> Iterator[Service]:
    with (
        tempfile.TemporaryDirectory(prefix="tbd-bench-") as folder,
        serving(Path(folder), partial(filled.fill, queued=2000)) as service,
    ):
        yield service


def p95_s(service: Service, path: str) -> float:
    """Seconds; the 95th percentile over ``REQUESTS``."""
    newest = service.call("GET", "/api/v1/experiments?limit=1")["items"][0]["id"]
    url = service.url + "/api/v1" + path.format(newest=newest)
    taken = []
    for _ in range(REQUESTS):
        began = time.perf_counter()
        with urllib.request.urlopen(url, timeout=120) as answer:
            answer.read()
        taken.append(time.perf_counter() - began)
    return statistics.quantiles(taken, n=20, method="inclusive")[-1]


def measure(services: Mapping[str, Service], pairs: int) -> Ratio:
    """The ratio of the list that fares worst."""
    found = []
    for path in PATHS:
        much, little = in_turn(pairs, *(lambda of=of, at=path: p95_s(services[of], at) for of in ("much", "little")))
        found.append(
            ratio(f"p95 of {path}: 2,000 experiments, 32,000 runs / little more than a page", "<= 2", much, little)
        )
        print(found[-1], file=sys.stderr, flush=True)
    return max(found, key=lambda one: one.value)


def measure_idle(service: Service, pairs: int) -> Ratio:
    """Raises ``RuntimeError`` where the server takes more memory than it should."""
    process = psutil.Process(service.pid)

    def busy_s() -> float:
        before = sum(process.cpu_times()[:2])
        time.sleep(IDLE_S)
        return max(sum(process.cpu_times()[:2]) - before, 1e-3)

    taken = [busy_s() for _ in range(pairs + 1)][1:]  # the first one saw the server start
    if process.memory_info().rss > MOST_BYTES:
        raise RuntimeError(f"an idle server takes {process.memory_info().rss / 1e6:.0f} MB")
    name = "processor time of an idle server with 2,000 queued experiments / 1 % of a core"
    return ratio(name, "<= 1", taken, [SHARE * IDLE_S] * pairs)
