"""Tests that are run when what they depend on has changed, and else are left out: ``depends_on(path, …)``.

The mark names files and folders of the repository: those by which the test alone can be broken, or by which hardly
anything else is tested. A digest of them and of the test's own file is compared with the one that stands in
``tests/proven.toml``. Where they differ, or none stands there, the test runs, and when it has passed its digest is
recorded; the file is committed with the change. Where they are equal the test is left out, and the summary says so.

With ``whole=True`` in the mark all those of a file run, or none: for tests that follow each other.

Of those with ``drawn=True`` in the mark, ``DRAWN`` run all the same: drawn by the commit's hash, so that a commit has
always the same ones and the next one has others. In a tree without a commit, such as an exported one, the digests of
what they depend on draw. One that fails, with these files as they were, is forgotten, and so runs until it passes.

``--prove`` (``make prove``) runs them all. So does naming their file on the command line.
"""

import hashlib
import json
import subprocess
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

MARK = "depends_on"
# How many run although they are proven. Judgement: some 40 s of a core, with a dataset that is made for one;
# each comes up with every eighth commit or so.
DRAWN = 3
_PROPERTY = "proves"
_HEAD = "# Test -> digest of what it depends on, when it last passed (tests/support/proven.py). Written by the tests.\n"


def digest(root: Path, paths: Iterable[str]) -> str:
    """Return the digest of the names and contents of all files of ``paths``, files and folders below ``root``.

    Raises:
        FileNotFoundError: one of them is not there, so that nobody can change it.
    """
    found = hashlib.sha256()
    for path in sorted({file for name in paths for file in _files(root / name)}):
        for part in (str(path.relative_to(root)).encode(), path.read_bytes()):
            found.update(b"%d " % len(part) + part)
    return found.hexdigest()[:16]


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    files = [file for file in path.rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    if not files:
        raise FileNotFoundError(f"{path}: named by a test as what it depends on")
    return files


def read(path: Path) -> dict[str, str]:
    """Return what is recorded: {test: digest}."""
    return tomllib.loads(path.read_text()) if path.exists() else {}


def write(path: Path, record: dict[str, str]) -> None:
    """Record ``record``, a line for each test; tests whose file is no longer there are forgotten."""
    root = path.parent.parent
    kept = {test: found for test, found in record.items() if (root / test.partition("::")[0]).exists()}
    path.write_text(_HEAD + "".join(f"{json.dumps(test)} = {json.dumps(kept[test])}\n" for test in sorted(kept)))


def draw(tests: Iterable[str], by: str, count: int = DRAWN) -> list[str]:
    """Return ``count`` of ``tests``, or all where they are fewer, in order: others for nearly every ``by``."""
    lots = {test: hashlib.sha256(f"{by} {test}".encode()).digest() for test in tests}
    return sorted(sorted(lots, key=lots.__getitem__)[:count])


def commit(root: Path) -> str | None:
    """Return the hash of the commit that ``root`` is a checkout of; None where it is none, or git is not there."""
    command = ["git", "--git-dir", str(root / ".git"), "rev-parse", "--verify", "HEAD"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return told.stdout.strip()


class Proofs:
    """The plugin of pytest that leaves out what is proven and records what has been; ``root`` is the repository's."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._path = root / "tests" / "proven.toml"
        # What is told at the end: {"left_out": how many, "drawn": names, "by": what drew them}. All processes of ``-n``
        # leave out and draw the same.
        self._told: dict[str, Any] = {}
        self._passed: dict[str, str] = {}
        self._failed: dict[str, str] = {}
        self._recorded = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        record = read(self._path)
        proven, digests = {}, []
        for item in items:
            paths = {path for mark in item.iter_markers(MARK) for path in mark.args}
            if not paths:
                continue
            found = digest(self._root, [*paths, str(item.path.relative_to(self._root))])
            digests.append(found)
            # pytest-xdist adds the group to the name of the item later on.
            item.user_properties.append((_PROPERTY, f"{found} {item.nodeid}"))
            if record.get(item.nodeid) == found and not (config.getoption("--prove") or _is_named(config, item)):
                proven[item.nodeid] = item
        incomplete = {item.path for item in items if _says(item, "whole") and item.nodeid not in proven}
        proven = {name: one for name, one in proven.items() if not (_says(one, "whole") and one.path in incomplete)}
        hash_of_commit = commit(self._root) if proven else None
        drawn = draw(
            filter(lambda name: _says(proven[name], "drawn"), proven), hash_of_commit or " ".join(sorted(digests))
        )
        left_out = [item for name, item in proven.items() if name not in drawn]
        items[:] = [item for item in items if item not in left_out]
        by = (
            f"commit {hash_of_commit[:12]}"
            if hash_of_commit
            else "the digests of what they depend on, without a commit"
        )
        self._told = {"left_out": len(left_out), "drawn": drawn, "by": by}
        if left_out:
            config.hook.pytest_deselected(items=left_out)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        found, _, test = str(dict(report.user_properties).get(_PROPERTY, "")).partition(" ")
        if found and report.failed:
            self._failed[test] = found
        elif found and report.when == "call" and report.passed:
            self._passed[test] = found

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """A process of ``-n`` has ended."""
        self._told = getattr(node, "workeroutput", {}).get(_PROPERTY, self._told)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workerinput"):
            session.config.workeroutput[_PROPERTY] = self._told
            return
        before = read(self._path)
        new = {test: found for test, found in self._passed.items() if test not in self._failed}
        after = {test: found for test, found in (before | new).items() if self._failed.get(test) != found}
        self._recorded = sum(before.get(test) != found for test, found in new.items())
        if after != before:
            write(self._path, after)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self._told.get("left_out"):
            told = "tests are left out: what they depend on is as it was when they passed (make prove runs them)"
            terminalreporter.write_line(f"{self._told['left_out']} {told}")
        if self._told.get("drawn"):
            names = ", ".join(name.rpartition("/")[2] for name in self._told["drawn"])
            terminalreporter.write_line(f"run although proven, drawn by {self._told['by']}: {names}")
        if self._recorded:
            terminalreporter.write_line(f"{self._recorded} tests are newly proven: commit tests/proven.toml")


def _says(item: pytest.Item, word: str) -> bool:
    """Whether a mark of ``item`` has ``word=True``."""
    return any(mark.kwargs.get(word) for mark in item.iter_markers(MARK))


def _is_named(config: pytest.Config, item: pytest.Item) -> bool:
    """Whether the file of ``item`` stands on the command line, and not only a folder that it lies in."""
    named = {(config.invocation_params.dir / argument.partition("::")[0]).resolve() for argument in config.args}
    return item.path.resolve() in named
