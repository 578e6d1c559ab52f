"""Of the tests that are left to a change those that a difference can break: ``--changed-since REV``.

``tests/scopes.toml`` says which paths can break which tests; ``tests/architecture/test_scopes.py`` holds it against the
imports. The difference is that of the working tree, with files that git does not know yet, to ``REV``.
"""

import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

MARK = "after_change"


@dataclass(frozen=True)
class Scope:
    """Tests, and the paths that can break them: files and folders."""

    name: str
    product: tuple[str, ...]
    tests: tuple[str, ...]

    def is_of(self, test: str) -> bool:
        return any(_lies_in(test, path) for path in self.tests)

    def can_break(self, path: str) -> bool:
        return any(_lies_in(path, own) for own in self.product)


def scopes(root: Path) -> list[Scope]:
    """Return the rows of ``tests/scopes.toml``; what can break every test is in each of them."""
    told = tomllib.loads((root / "tests" / "scopes.toml").read_text())
    every = tuple(told["every"]["product"])
    return [Scope(name, (*row["product"], *every), tuple(row["tests"])) for name, row in told["scope"].items()]


def differing(root: Path, revision: str) -> set[str]:
    """Return the paths that are not as in ``revision``.

    Raises:
        pytest.UsageError: there is no such revision.
    """
    found = []
    for command in (
        ["diff", "--name-only", "--no-renames", "-z", revision, "--"],
        ["ls-files", "-z", "-o", "--exclude-standard"],
    ):
        # A checkout of somebody else's is read all the same.
        told = subprocess.run(["git", "-c", "safe.directory=*", *command], cwd=root, capture_output=True, text=True)
        if told.returncode:
            raise pytest.UsageError(f"--changed-since {revision}: {told.stderr.strip()}")
        found += told.stdout.split("\0")
    return set(filter(None, found))


class Changed:
    """The plugin of pytest that leaves out what no file that differs can break; ``root`` is the repository's."""

    def __init__(self, root: Path, revision: str) -> None:
        self._root = root
        self._scopes = scopes(root)
        self._paths = differing(root, revision)
        self._revision = revision

    def touches(self, test: str) -> bool:
        """Whether a path that differs can break the tests of the file ``test``; one of no scope is run each time."""
        own = [scope for scope in self._scopes if scope.is_of(test)]
        return not own or test in self._paths or any(scope.can_break(path) for scope in own for path in self._paths)

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        files = {item.path for item in items}
        touched = {file for file in files if self.touches(str(file.relative_to(self._root)))}
        left_out = [item for item in items if item.path not in touched]
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if item.path in touched]

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        names = ", ".join(one.name for one in self._scopes if any(map(one.can_break, self._paths)))
        told = f"{len(self._paths)} files differ from {self._revision}"
        terminalreporter.write_line(f"{told}; what they can break: {names or 'nothing that is left to a change'}")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:  # nothing is touched
            session.exitstatus = pytest.ExitCode.OK


def _lies_in(path: str, place: str) -> bool:
    return path == place or path.startswith(place + "/")
