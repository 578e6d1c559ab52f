"""A seeded fault changes what a program does, at one place inside a function, and no text."""

import ast
from pathlib import Path

import pytest

from bench.seeded_faults import FOLDERS, PYTEST, ROOT, drawn, faults, first_failed, with_signs

SUMMARY = "=== short test summary info ===\n"
SOURCE = '''
LIMIT = 3
def f(a: "int" = 7) -> bool:
    """Not 5 + 5."""
    é = "ü"; store.add(a)
    log.info("text %d", a + 1)
    if a < 2 and é:
        raise ValueError(f"{a + 1} is " + "wrong")
    return a + 4
'''


def test_operators_constants_calls_and_conditions_are_changed_and_texts_are_not() -> None:
    found = {(one.line, one.before, one.after) for one in faults("f.py", SOURCE)}
    assert found == {
        (5, "store.add(a)", "pass"),
        (7, "a < 2 and é", "(not (a < 2 and é))"),
        (7, "a < 2 and é", "(a < 2 or é)"),
        (7, "a < 2", "(a <= 2)"),
        (7, "2", "3"),
        (9, "a + 4", "(a - 4)"),
        (9, "4", "5"),
    }


def test_a_fault_changes_its_place_and_nothing_else() -> None:
    changed = {one.within(SOURCE.encode()).decode() for one in faults("f.py", SOURCE)}
    assert SOURCE.replace("store.add(a)", "pass") in changed
    assert SOURCE.replace("a < 2 and é", "(a < 2 or é)") in changed


def test_a_function_says_first_that_somebody_came_by_and_all_else_stays() -> None:
    signed = with_signs(SOURCE, [(5, "one()"), (9, "two()")])
    told = [line for line in signed.splitlines() if line not in SOURCE.splitlines()]
    assert told == ["    one()", "    two()"]
    assert ast.get_docstring(ast.parse(signed).body[1]) == "Not 5 + 5."  # type: ignore[arg-type]


@pytest.mark.after_change
def test_each_room_has_its_turn_and_the_same_seed_draws_the_same_faults() -> None:
    found = drawn(ROOT, 2 * len(FOLDERS), seed=1)
    for turn in (found[: len(FOLDERS)], found[len(FOLDERS) :]):
        assert {folder for one in turn for folder in FOLDERS if one.path.startswith(folder)} == set(FOLDERS)
    for one in found:
        whole = Path(ROOT, one.path).read_bytes()
        assert ast.dump(ast.parse(one.within(whole))) != ast.dump(ast.parse(whole))
    assert drawn(ROOT, 2 * len(FOLDERS), seed=1) == found
    assert drawn(ROOT, 2 * len(FOLDERS), seed=2) != found


@pytest.mark.parametrize(
    ("told", "wanted"),
    [
        (f"ERROR    a.log:1 GET /x\n{SUMMARY}FAILED tests/t.py::test_x[a b] - no\n", "tests/t.py::test_x[a b]"),
        (f"{SUMMARY}ERROR tests/t.py::test_x\n1 error", "tests/t.py::test_x"),
        ("ImportError while loading conftest\n", PYTEST),
        ("ERROR    a.log:1 GET /x\n", PYTEST),
    ],
)
def test_the_failed_test_is_that_of_the_summary_and_no_line_of_a_log(told: str, wanted: str) -> None:
    assert first_failed(told) == wanted
