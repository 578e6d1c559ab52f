"""The network of one test module, and the one bench of a test session. Without namespaces all of this is skipped."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import hosts
from tests.cluster.bench import Bench
from tests.cluster.network import Network


def _folder() -> Iterator[Path]:
    reason = hosts.refusal()
    if reason:
        pytest.skip(reason)
    # A short path: there are sockets below it, whose paths may have 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="tbd-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def bench_folder() -> Iterator[Path]:
    yield from _folder()


@pytest.fixture(scope="module")
def network_folder() -> Iterator[Path]:
    yield from _folder()


def two_cores() -> tuple[int, int]:
    """The first and the last core of this machine; where there is only one, that one twice."""
    cores = sorted(os.sched_getaffinity(0))
    return cores[0], cores[-1]


@pytest.fixture(scope="module")
def network(network_folder: Path) -> Iterator[Network]:
    """Two hosts without anything on them, ``one`` and ``two``."""
    first, last = two_cores()
    network = Network(network_folder, {"one": ((first,), 1000), "two": ((last,), 50000)})
    try:
        network.boot()
        yield network
    finally:
        network.close()


@pytest.fixture(scope="session")
def bench(bench_folder: Path) -> Iterator[Bench]:
    """The head without devices; ``one`` and ``two`` with one CPU device each, ``three`` with two."""
    first, last = two_cores()
    both = tuple(sorted({first, last}))
    bench = Bench(
        bench_folder,
        {"head": (both, 0, 0), "one": ((first,), 1000, 1), "two": ((last,), 50000, 1), "three": (both, 300, len(both))},
    )
    try:
        yield bench.start()
    finally:
        bench.close()
