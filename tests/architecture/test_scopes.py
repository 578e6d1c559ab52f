"""``tests/scopes.toml`` against what the tests really reach: by imports, and by the names of modules in their strings,
which are imported or started by name (``"-m", "workers.node"``; a folder's name stands for all that lies in it)."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.support import changed

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("orchestrator", "workers", "suites", "tests", "bench", "deploy")
FILES = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
MODULES = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in FILES}
PACKAGES = {".".join(path.relative_to(ROOT).parent.parts) for path in FILES}
NAME = re.compile(rf"\b(?:{'|'.join(FOLDERS)})(?:\.\w+)+")
SCOPES = changed.scopes(ROOT)


def reached(text: str) -> set[str]:
    """The modules that a source imports or names: ``"workers.trainer"`` all of the folder."""
    tree, found = ast.parse(text), set()
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {module for alias in node.names for module in named(alias.name)}
        elif isinstance(node, ast.ImportFrom):
            found |= {module for alias in node.names for module in named(f"{node.module}.{alias.name}")}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            for name in NAME.findall(node.value):
                found |= named(name) | everything_in(name)
    return found


def named(name: str) -> set[str]:
    """``name`` and the packages that it lies in, as far as they are modules of ours."""
    parts = name.split(".")
    return {".".join(parts[:count]) for count in range(1, len(parts) + 1)} & MODULES.keys()


def everything_in(name: str) -> set[str]:
    while "." in name and name not in MODULES and name not in PACKAGES:
        name = name.rpartition(".")[0]  # an attribute, or what is filled in
    return {module for module in MODULES if module.startswith(name + ".")} if "." in name else set()


@cache
def imports(module: str) -> set[str]:
    return reached(MODULES[module].read_text())


def closure(*modules: str) -> set[Path]:
    """The files that ``modules`` reach by any number of steps; those that only say what a package is are left out."""
    found: set[str] = set()
    ahead = set(modules)
    while ahead:
        found |= ahead
        ahead = {one for module in ahead for one in imports(module)} - found
    return {MODULES[one] for one in found if MODULES[one].name != "__init__.py" or imports(one) - {one}}


def roots(test: Path) -> list[str]:
    """The module of ``test``, and those of the fixtures that it is given."""
    conftests = [folder / "conftest.py" for folder in test.parents if (folder / "conftest.py") in FILES]
    return [name for name, path in MODULES.items() if path in (test, *conftests)]


def marked() -> list[str]:
    """The files with tests that are left to a change."""
    tests = [path for path in FILES if path.name.startswith("test_")]
    return [str(path.relative_to(ROOT)) for path in tests if f"mark.{changed.MARK}" in path.read_text()]


@pytest.mark.parametrize("scope", SCOPES, ids=lambda scope: scope.name)
def test_a_scope_names_all_that_its_tests_reach(scope: changed.Scope) -> None:
    tests = [test for test in marked() if scope.is_of(test)]
    assert tests
    outside = {
        str(path.relative_to(ROOT))
        for test in tests
        for path in closure(*roots(ROOT / test)) - {ROOT / test}
        if not any(one.can_break(str(path.relative_to(ROOT))) for one in SCOPES if one.is_of(test))
    }
    assert outside == set()


def test_every_test_that_is_left_to_a_change_has_a_scope_and_every_path_is_there() -> None:
    assert [test for test in marked() if not any(scope.is_of(test) for scope in SCOPES)] == []
    paths = {path for scope in SCOPES for path in (*scope.product, *scope.tests)}
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_modules_that_are_started_or_imported_by_name_are_reached() -> None:
    assert "workers.trainer.frameworks.cntk.adapter" in reached("run('-m', 'workers.trainer')")
    assert "suites.models.gpt_2.pytorch" in reached("f'suites.models.{name}.pytorch'")
    assert reached("'''See ``orchestrator.app``.'''") == set()
