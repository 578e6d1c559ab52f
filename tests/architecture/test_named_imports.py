"""What the trainer and the suites import by a name that is made when they run: no import rule sees it, so it is listed.

It follows the same arrows as the rest (``pyproject.toml``): an adapter or a loop has the modules of a suite found by
``suites/modules.py``, which names suites only, and the base of the trainer finds nothing.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ISLAND = ("workers/trainer", "suites")
# file -> what the names begin with that it makes; None: all of the name comes from elsewhere.
FOUND = {
    "suites/modules.py": ["%s.%s", "suites.assemble.%s.build", "suites.datasets.%s.%s", "suites.inputs.%s"],
    "suites/quality/__init__.py": ["suites.quality."],
    "suites/datasets/games/__init__.py": ["suites.datasets.games."],
    "suites/datasets/documentation/prose.py": [None],  # the packages whose prose it reads
    "workers/trainer/preparation.py": [None],  # the program that prepares a dataset
    "workers/trainer/hook.py": ["workers.trainer.frameworks.pytorch.watched"],
    "workers/trainer/__main__.py": ["workers.trainer.frameworks.%s.adapter"],
    "workers/trainer/frameworks/mxnet/adapter.py": ["workers.trainer.frameworks.mxnet."],
    "workers/trainer/frameworks/pytorch/adapter.py": ["workers.trainer.frameworks.pytorch."],
    "workers/trainer/frameworks/tensorflow/adapter.py": ["workers.trainer.frameworks.tensorflow."],
}
OURS = ("workers", "suites", "orchestrator")


def made_names(text: str) -> list[str | None]:
    """What the names begin with that are imported when ``text`` runs; not those of a library that stand there whole."""
    return sorted(set(_made(ast.parse(text))), key=str)


def _made(tree: ast.Module) -> Iterator[str | None]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or _name(node.func) not in ("import_module", "__import__", "run_module"):
            continue
        name = node.args[0] if node.args else node
        whole = isinstance(name, ast.Constant)
        first = name.left if isinstance(name, ast.BinOp) else name
        begin = first.value if isinstance(first, ast.Constant) else None
        if not whole or str(begin).split(".")[0] in OURS:
            yield begin


def _name(called: ast.expr) -> str:
    return called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")


def test_every_name_that_is_made_is_listed() -> None:
    files = [path for folder in ISLAND for path in sorted((ROOT / folder).rglob("*.py"))]
    found = {str(path.relative_to(ROOT)): made_names(path.read_text(encoding="utf-8")) for path in files}
    assert {file: names for file, names in found.items() if names} == FOUND


def test_a_name_that_is_made_is_found() -> None:
    planted = """
import importlib
from importlib import import_module

importlib.import_module("numpy")
importlib.import_module("suites.quality")
import_module("workers.%s" % name)
import_module(name)
"""
    assert made_names(planted) == [None, "suites.quality", "workers.%s"]
