"""The public functions of the island say what they take and return: Python 3.6 has annotations."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("workers/trainer", "suites")
# Private by their names, and part of what others call all the same.
CALLED = ("__init__", "__call__")


def without_annotations(text: str) -> list[str]:
    """The public functions and methods of a module that lack an annotation, with what lacks one."""
    return [f"{name}: {', '.join(lacking)}" for name, lacking in _lacking(ast.parse(text).body, "")]


def _lacking(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, list[str]]]:
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from _lacking(node.body, f"{prefix}{node.name}.")
        if isinstance(node, ast.FunctionDef) and (not node.name.startswith("_") or node.name in CALLED):
            given = node.args
            own = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
            lacking = [one.arg for one in own if one and not one.annotation and one.arg not in ("self", "cls")]
            lacking += [] if node.returns or node.name == "__init__" else ["what it returns"]
            if lacking:
                yield prefix + node.name, lacking


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_public_function_of_the_island_is_annotated(folder: str) -> None:
    files = sorted((ROOT / folder).rglob("*.py"))
    found = {str(file.relative_to(ROOT)): without_annotations(file.read_text(encoding="utf-8")) for file in files}
    assert found
    assert {name: lacking for name, lacking in found.items() if lacking} == {}


def test_what_lacks_an_annotation_is_found() -> None:
    planted = """
def whole(a: int, *rest: int, last: str = "") -> None: ...
def no_return(a: int): ...
def _private(a): ...
class Public(object):
    def __init__(self, a, b: int = 0): ...
    def verb(self, *rest, **more) -> None: ...
class _Hidden(object):
    def verb(self, a): ...
"""
    assert without_annotations(planted) == [
        "no_return: what it returns",
        "Public.__init__: a",
        "Public.verb: rest, more",
    ]
