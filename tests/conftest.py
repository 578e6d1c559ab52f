"""Interpreters of the frameworks for tests that really train: named by the environment, else those built here; what two
processes of pytest (``-n 2``) share and what not; and what is told at the end of a run."""

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.support import deadline
from tests.support.changed import Changed
from tests.trainer_process import ROOT
from workers.node import interpreters

# What takes longest begins first, so that both processes end at about the same time. The several hosts have to be one
# process's; they mostly wait, so that the other one has the cores. What lies in no folder of these comes after them.
FIRST = ("cluster", "deploy", "contract", "integration", "faults")
# Several hosts and containers share a process: each is as much as two cores carry beside the other process's tests.
TOGETHER = ("cluster", "deploy")
# A test that is left to a change takes minutes where others use the machine as well: it has hung when it takes longer.
LONG_S = 900.0
# Judgement: a unit test that takes longer is no unit test, or can be made quicker.
UNIT_S = 1.0


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--changed-since", metavar="REV", help="leave out what no file that differs from REV can break")


def pytest_configure(config: pytest.Config) -> None:
    """Keep the processes of ``-n`` apart: what one trains does not wait for the devices of the other's, and OpenMP's
    threads do not spin on cores that the other needs."""
    if hasattr(config, "workerinput"):
        os.environ["TBD_LOCK_DIR"] = tempfile.mkdtemp(prefix="tbd-test-locks-")
        os.environ.update(OMP_WAIT_POLICY="PASSIVE", KMP_BLOCKTIME="0")
    config.pluginmanager.register(deadline)
    if config.getoption("--changed-since"):
        config.pluginmanager.register(Changed(Path(ROOT), config.getoption("--changed-since")))


# First, because pytest-xdist reads the groups in the same hook: what is marked after it is dealt out test by test, and
# every process makes every fixture.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep together what shares fixtures: the tests of a module with a framework; all on several hosts and all in
    containers. Give those that take long their time."""
    items.sort(key=lambda item: _turn(_folder(item)))
    for item in items:
        framework = item.get_closest_marker("framework")
        of_framework = f"-{framework.args[0]}" if framework else ""
        name = TOGETHER[0] if _folder(item) in TOGETHER else item.nodeid.partition("::")[0] + of_framework
        item.add_marker(pytest.mark.xdist_group(name))
        if item.get_closest_marker("after_change") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(LONG_S))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Name the unit tests that take too long."""
    passed = [report for report in terminalreporter.getreports("passed") if report.nodeid.startswith("tests/unit/")]
    slow = sorted((one for one in passed if one.duration > UNIT_S), key=lambda one: -one.duration)
    if slow:
        told = ", ".join(f"{one.location[0]}::{one.location[2]} {one.duration:.1f} s" for one in slow)
        terminalreporter.write_line(f"unit tests over {UNIT_S:g} s: {told}")


def _folder(item: pytest.Item) -> str:
    """Return the folder of ``tests`` that ``item`` lies in."""
    return item.path.relative_to(Path(__file__).parent).parts[0]


def _turn(folder: str) -> int:
    return FIRST.index(folder) if folder in FIRST else len(FIRST)


@pytest.fixture(scope="session")
def python_of():
    """Return a function: name of an interpreter -> path of its Python; skips the test where it is not built."""

    def find(name):
        python = os.environ.get("TBD_TEST_PYTHON_" + name.upper())
        resolved = interpreters.resolve(name)
        if not python and not resolved.ready:
            pytest.skip(resolved.reason)
        return python or resolved.python

    return find


@pytest.fixture(scope="session")
def made_dataset(python_of, tmp_path_factory):
    """Return a function: folder of ``suites/datasets`` -> the folder of the dataset, made once for all tests."""
    made = {}

    def make(folder):
        if folder not in made:
            root = tmp_path_factory.mktemp("datasets") / folder
            command = [python_of("datasets"), "-m", f"suites.datasets.{folder}.prepare", "--root", str(root)]
            subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
            made[folder] = root
        return made[folder]

    return make


@pytest.fixture(scope="session")
def photographs(made_dataset):
    """The dataset of photographs; its folder."""
    return made_dataset("photographs")
