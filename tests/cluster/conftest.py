"""The network of one test module, and the one bench of this folder. Without namespaces all of this is skipped."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import hosts
from tests.cluster.bench import Bench, Layout
from tests.cluster.network import Network


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what lies in this folder where hosts cannot be made."""
    here = Path(__file__).parent
    mine = [item for item in items if here in item.path.parents]
    reason = hosts.refusal() if mine else None
    for item in mine if reason else []:
        item.add_marker(pytest.mark.skip(reason=reason))


def _folder() -> Iterator[Path]:
    # A short path: there are sockets below it, whose paths may have 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="tbd-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="package")
def bench_folder() -> Iterator[Path]:
    yield from _folder()


@pytest.fixture(scope="module")
def network_folder() -> Iterator[Path]:
    yield from _folder()


@pytest.fixture(scope="module")
def network(network_folder: Path) -> Iterator[Network]:
    """Two hosts without anything on them, ``one`` and ``two``."""
    cores = sorted(os.sched_getaffinity(0))
    network = Network(network_folder, {"one": (cores[:1], 1000), "two": (cores[-1:], 50000)})
    try:
        network.boot()
        yield network
    finally:
        network.close()


@pytest.fixture(scope="package")
def bench(bench_folder: Path) -> Iterator[Bench]:
    """The head without devices; ``one`` and ``two`` with one CPU device each, ``three`` with two."""
    bench = Bench(bench_folder, Layout.of_this_machine())
    try:
        yield bench.start()
    finally:
        bench.close()
