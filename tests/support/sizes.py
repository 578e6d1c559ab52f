"""What is long: files above 400 lines and functions above 50, the longest first, for whoever wants to look.

A look and not a gate: a file is divided by sense or not at all. ``make lint`` prints ten at most, and nothing where
there is nothing.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("orchestrator", "workers", "suites", "deploy", "tests", "bench")
LONG_FILE, LONG_FUNCTION = 400, 50
MOST = 10


def long(name: str, text: str) -> Iterator[tuple[int, str]]:
    """Yield (lines, name) of the file if it is long, and of each of its functions that is."""
    if (lines := len(text.splitlines())) > LONG_FILE:
        yield lines, name
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno:
            lines = node.end_lineno - node.lineno + 1
            if lines > LONG_FUNCTION:
                yield lines, f"{name} {node.name}"


def main() -> None:
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    found = [one for path in paths for one in long(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"))]
    for lines, name in sorted(found, reverse=True)[:MOST]:
        print(f"{lines} lines: {name}")


if __name__ == "__main__":
    main()
