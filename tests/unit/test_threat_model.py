"""The threat model: every line names its tests, and they are there."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "operate" / "threat-model.md"
TEST = re.compile(r"`(tests/[\w/]+\.py): (test_\w+)`")


def rows() -> list[list[str]]:
    """The cells of each line of the table."""
    lines = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def names_of_tests(path: Path) -> set[str]:
    tree = ast.parse(path.read_text("utf-8")) if path.is_file() else ast.Module([], [])
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_line_of_the_threat_model_names_tests_that_are_there() -> None:
    missing = [line[0] for line in rows() if len(line) != 3 or not TEST.findall(line[2])]
    assert missing == []
    named = [found for line in rows() for found in TEST.findall(line[2])]
    assert [(path, name) for path, name in named if name not in names_of_tests(ROOT / path)] == []
    assert len(rows()) > 20
