"""Files and functions stay small enough to hold in one's head. What is larger today is named, and may only shrink."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MOST_LINES_OF_A_FILE = 400
MOST_LINES_OF_A_FUNCTION = 50

# Larger today, and by how many lines at most. Nothing is added here: what is new is split.
FILES: dict[str, int] = {}
FUNCTIONS: dict[str, int] = {}


def sources() -> dict[str, str]:
    """Every Python file of the project by its path."""
    folders = ("orchestrator", "workers", "suites", "tests", "deploy")
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return {str(path.relative_to(ROOT)): path.read_text() for path in paths}


def long_files(texts: dict[str, str]) -> dict[str, int]:
    lines = {path: len(text.splitlines()) for path, text in texts.items()}
    return {path: count for path, count in lines.items() if count > MOST_LINES_OF_A_FILE}


def long_functions(texts: dict[str, str]) -> dict[str, int]:
    found = {}
    for path, text in texts.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno:
                lines = node.end_lineno - node.lineno + 1
                if lines > MOST_LINES_OF_A_FUNCTION:
                    found[f"{path} {node.name}"] = lines
    return found


def too_large(found: dict[str, int], allowed: dict[str, int]) -> dict[str, str]:
    """What has grown or is new; and what is no longer too large, whose entry has to go."""
    told = {name: f"{lines} lines: split it" for name, lines in found.items() if lines > allowed.get(name, 0)}
    return told | {name: "remove its entry" for name in allowed if name not in found}


def test_no_file_is_longer_than_it_was() -> None:
    assert too_large(long_files(sources()), FILES) == {}


def test_no_function_is_longer_than_it_was() -> None:
    assert too_large(long_functions(sources()), FUNCTIONS) == {}


def test_what_is_new_has_grown_or_is_small_again_is_told() -> None:
    body = "".join(f"    x = {number}\n" for number in range(MOST_LINES_OF_A_FUNCTION))
    texts = {"new.py": f"def long():\n{body}", "longer.py": "\n" * 500, "short.py": "x = 1\n"}
    assert too_large(long_functions(texts), {}) == {"new.py long": "51 lines: split it"}
    told = too_large(long_files(texts), {"longer.py": 450, "short.py": 420})
    assert told == {"longer.py": "500 lines: split it", "short.py": "remove its entry"}
