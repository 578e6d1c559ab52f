"""Which tests a difference touches, and what is said of those that there was no time for."""

import subprocess
import time
from pathlib import Path

import pytest

from tests.support import deadline
from tests.support.changed import Changed, differing

pytest_plugins = ["pytester"]

GIT = ("git", "-c", "user.name=somebody", "-c", "user.email=somebody@example.org", "-c", "commit.gpgsign=false")
SCOPES = """
[every]
product = ["tests/support"]
[scope.training]
product = ["workers/trainer", "notes.txt"]
tests = ["tests/contract", "tests/test_two.py"]
[scope.hosts]
product = ["workers"]
tests = ["tests/cluster", "tests/test_two.py"]
"""
TESTS = ("tests/contract/test_one.py", "tests/cluster/test_one.py", "tests/test_two.py", "tests/test_of_no_scope.py")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("workers/trainer/loop.py", "workers/node.py", "workers_too.py", "notes.txt", *TESTS):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("as it was")
    (tmp_path / "tests/scopes.toml").write_text(SCOPES)
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "one"]):
        subprocess.run([*GIT, *command], cwd=tmp_path, check=True)
    return tmp_path


@pytest.mark.parametrize(
    ("path", "touched"),
    [
        ("workers/trainer/loop.py", [0, 1, 2]),
        ("workers/trainer/new.py", [0, 1, 2]),
        ("workers/node.py", [1, 2]),
        ("notes.txt", [0, 2]),
        ("tests/support/new.py", [0, 1, 2]),
        ("tests/contract/test_one.py", [0]),
        ("workers_too.py", []),
    ],
)
def test_a_difference_touches_the_tests_of_its_scopes_its_own_and_those_of_none(
    checkout: Path, path: str, touched: list[int]
) -> None:
    (checkout / path).parent.mkdir(exist_ok=True)
    (checkout / path).write_text("changed")
    found = Changed(checkout, "HEAD")
    assert [number for number, test in enumerate(TESTS) if found.touches(test)] == [*touched, 3]


def test_what_was_committed_moved_or_removed_since_differs_too(checkout: Path) -> None:
    subprocess.run([*GIT, "mv", "workers/node.py", "workers/agent.py"], cwd=checkout, check=True)
    subprocess.run([*GIT, "commit", "-q", "-m", "two"], cwd=checkout, check=True)
    (checkout / "notes.txt").unlink()
    assert differing(checkout, "HEAD~1") == {"workers/node.py", "workers/agent.py", "notes.txt"}
    with pytest.raises(pytest.UsageError, match="nonesuch"):
        differing(checkout, "nonesuch")


def test_what_there_is_no_time_for_is_not_begun_and_named(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Importing all plugins that are installed takes longer than all the rest.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(test_it="def test_one(): pass\ndef test_two(): assert False")
    for end, outcome in ((time.time() - 1, {"skipped": 2}), (time.time() + 1000, {"passed": 1, "failed": 1})):
        monkeypatch.setenv(deadline.END, str(end))
        result = pytester.runpytest_inprocess("-p", "no:cacheprovider", plugins=[deadline])
        assert {name: count for name, count in result.parseoutcomes().items() if count} == outcome
        assert ("  2 of test_it.py" in result.outlines) == ("skipped" in outcome)
