"""The walk of a run, told in the docstrings of the packages, names real files and real functions."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("orchestrator/__init__.py", "workers/__init__.py", "suites/__init__.py")
# ``orchestrator/services/experiment/submit.py: submit, plan``, with one backtick in Markdown: a file, and names in it.
PLACE = re.compile(r"`([\w./-]+/[\w.-]+\.\w+)(?:: ([\w., ]+))?`")
STEP = re.compile(r"^ ?(\d+)\. ", re.MULTILINE)
# A file that is named in the middle of a sentence.
FILE = re.compile(r"\b(?:orchestrator|workers|suites|tests|bench|docs)/[\w/.-]*\w\.(?:py|toml|yaml|md)\b")


def text_of(page: str) -> str:
    """The docstring of a module."""
    found = ast.get_docstring(ast.parse((ROOT / page).read_text(encoding="utf-8")))
    assert found, f"{page} has no docstring"
    return found


def wrong_places(text: str) -> list[str]:
    """Every place that ``text`` names and that is not there."""
    wrong = [f"there is no {file}" for file in FILE.findall(text) if not (ROOT / file).is_file()]
    for file, names in PLACE.findall(text):
        if not (ROOT / file).is_file():
            wrong.append(f"there is no {file}")
        elif names:
            there = set(names_in(ROOT / file))
            wrong += [f"{file} has no {name}" for name in names.split(", ") if name not in there]
    return list(dict.fromkeys(wrong))


def names_in(file: Path) -> Iterator[str]:
    """The functions, classes and constants of a module, and those of its classes as ``Class.name``.

    Read, not imported: the modules of a framework can be imported in its own interpreter only.
    """
    yield from _names(ast.parse(file.read_text(encoding="utf-8")).body)


def _names(body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield prefix + node.name
        if isinstance(node, ast.ClassDef):
            yield from _names(node.body, f"{prefix}{node.name}.")
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        yield from (prefix + target.id for target in targets if isinstance(target, ast.Name))


@pytest.mark.parametrize("page", PAGES)
def test_every_name_of_the_walk_is_there(page: str) -> None:
    assert wrong_places(text_of(page)) == []


@pytest.mark.parametrize("page", PAGES)
def test_the_steps_are_numbered_and_each_names_a_place(page: str) -> None:
    _, *parts = STEP.split(text_of(page))
    numbers, steps = parts[::2], parts[1::2]
    assert [int(number) for number in numbers] == list(range(1, len(steps) + 1))
    assert len(steps) >= 5
    assert [step for step in steps if not PLACE.search(step)] == []


@pytest.mark.parametrize("page", PAGES)
def test_a_line_that_should_name_a_place_does(page: str) -> None:
    """A place with a mistake in its form would be looked up by nobody."""
    lines = [line.strip() for line in text_of(page).splitlines()]
    assert [line for line in lines if re.fullmatch(r"``.*``", line) and not PLACE.fullmatch(line[1:-1])] == []


@pytest.mark.parametrize(
    ("true", "planted", "told"),
    [
        ("submit.py: submit,", "submit.py: submitt,", "orchestrator/services/experiment/submit.py has no submitt"),
        ("SqlStore.conclude", "SqlStore.concludes", "orchestrator/db/store.py has no SqlStore.concludes"),
        ("placement.py: place", "places.py: place", "there is no orchestrator/domain/asked/places.py"),
        ("RunState, MOVES", "RunState, MOVED", "orchestrator/domain/runs/run.py has no MOVED"),
        ("``workers/__init__.py`` has", "workers/steps.py has", "there is no workers/steps.py"),
    ],
)
def test_a_wrong_name_is_found(true: str, planted: str, told: str) -> None:
    text = text_of(PAGES[0])
    assert text.count(true) == 1
    assert wrong_places(text.replace(true, planted)) == [told]
