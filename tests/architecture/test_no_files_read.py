"""The domain and the analysis read no file: neither when they are imported nor later. They receive what they need."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("orchestrator/domain", "orchestrator/analysis")
# Modules whose purpose are files, processes or the network; import-linter forbids more (``test_imports.py``).
MODULES = {"tomllib", "pathlib", "os", "io", "shutil", "tempfile", "glob", "pkgutil", "importlib", "sqlite3", "urllib"}
CALLS = {"open", "read_text", "read_bytes", "write_text", "write_bytes", "loadtxt", "fromfile", "memmap"}


def reads(text: str) -> list[str]:
    """What in a module reads or writes files, by its line."""
    return [f"line {line}: {what}" for line, what in sorted(_found(ast.parse(text)))]


def _found(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [node.module or ""]
        elif isinstance(node, ast.Call):
            called = node.func
            name = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
            if name in CALLS:
                yield node.lineno, f"calls {name}"
        elif isinstance(node, ast.Attribute) and node.attr == "__path__":
            yield node.lineno, "looks for a package's folder"
        yield from ((node.lineno, f"imports {name}") for name in modules if name.split(".")[0] in MODULES)


@pytest.mark.parametrize("room", ROOMS)
def test_no_module_reads_a_file(room: str) -> None:
    found = {path.name: reads(path.read_text(encoding="utf-8")) for path in sorted((ROOT / room).glob("**/*.py"))}
    assert found
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_what_reads_a_file_is_found() -> None:
    planted = """
import tomllib
from pathlib import Path
import suites.models

FACTS = tomllib.loads((Path(suites.models.__path__[0]) / "facts.toml").read_text())

def later(path):
    with open(path) as file:
        return file
"""
    assert reads(planted) == [
        "line 2: imports tomllib",
        "line 3: imports pathlib",
        "line 6: calls read_text",
        "line 6: looks for a package's folder",
        "line 9: calls open",
    ]
