"""Tests that wait for a change of what they depend on: left out, chosen, recorded; by real runs of pytest."""

import subprocess
from pathlib import Path

import pytest

from tests.support import proven

pytest_plugins = ["pytester"]

CONFTEST = """
from pathlib import Path
from tests.support.proven import Proofs

def pytest_addoption(parser):
    parser.addoption("--prove", action="store_true")

def pytest_configure(config):
    config.addinivalue_line("markers", "depends_on(path): .")
    config.pluginmanager.register(Proofs(Path(__file__).parent.parent))
"""
TESTS = """
import pathlib, pytest

@pytest.mark.xdist_group("some")
@pytest.mark.depends_on("product")
def test_marked():
    assert "wrong" not in pathlib.Path("product/part.py").read_text()

def test_plain():
    pass
"""


@pytest.fixture
def tree(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a product, a test that depends on it and one that is run always."""
    # Importing all plugins that are installed takes longer than all the rest.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    files = {"product/part.py": "right", "product/other.py": "", "tests/conftest.py": CONFTEST}
    for name, text in {**files, "tests/test_it.py": TESTS}.items():
        path = pytester.path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return pytester.path


def outcomes(pytester: pytest.Pytester, *arguments: str) -> dict[str, int]:
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", *(arguments or ("tests",)))
    return {name: count for name, count in result.parseoutcomes().items() if count}


def test_a_test_that_has_passed_is_left_out_until_what_it_depends_on_changes(
    tree: Path, pytester: pytest.Pytester
) -> None:
    assert outcomes(pytester) == {"passed": 2}
    assert list(proven.read(tree / "tests/proven.toml")) == ["tests/test_it.py::test_marked"]
    assert outcomes(pytester) == {"passed": 1, "deselected": 1}
    (tree / "product/part.py").write_text("also right")
    assert outcomes(pytester) == {"passed": 2}
    assert outcomes(pytester) == {"passed": 1, "deselected": 1}


@pytest.mark.parametrize("changed", ["product/new.py", "tests/test_it.py"])
def test_a_new_file_in_a_folder_and_another_test_are_changes_too(
    tree: Path, pytester: pytest.Pytester, changed: str
) -> None:
    outcomes(pytester)
    (tree / changed).write_text("# changed\n" + ((tree / changed).read_text() if (tree / changed).exists() else ""))
    assert outcomes(pytester) == {"passed": 2}


def test_a_test_that_fails_is_not_recorded_and_runs_until_it_passes(tree: Path, pytester: pytest.Pytester) -> None:
    outcomes(pytester)
    (tree / "product/part.py").write_text("wrong")
    assert outcomes(pytester) == outcomes(pytester) == {"passed": 1, "failed": 1}
    (tree / "product/part.py").write_text("right")
    assert outcomes(pytester) == {"passed": 1, "deselected": 1}


@pytest.mark.parametrize("asked", [("--prove", "tests"), ("tests/test_it.py",), ("tests/test_it.py::test_marked",)])
def test_a_proven_test_runs_when_it_is_asked_for(tree: Path, pytester: pytest.Pytester, asked: tuple[str, ...]) -> None:
    outcomes(pytester)
    assert outcomes(pytester, *asked) == {"passed": 1 if "::" in asked[-1] else 2}


def test_several_processes_leave_out_and_record_the_same(tree: Path, pytester: pytest.Pytester) -> None:
    two = ("-p", "xdist", "-n", "2", "--dist", "loadgroup", "tests")
    assert outcomes(pytester, *two) == {"passed": 2}
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", *two)
    result.stdout.fnmatch_lines(["1 tests are left out: *"])
    assert result.parseoutcomes()["passed"] == 1


FOLLOWING = """
import pathlib, pytest

WHOLE = pytest.mark.depends_on("product", whole=True)

@WHOLE
def test_first():
    pathlib.Path("begun.txt").write_text("")

@WHOLE
def test_second():
    assert pathlib.Path("begun.txt").exists() and not pathlib.Path("broken.txt").exists()

@pytest.mark.depends_on("product")
def test_beside():
    pass
"""


def test_tests_that_follow_each_other_all_run_until_all_of_them_have_passed(
    tree: Path, pytester: pytest.Pytester
) -> None:
    (tree / "tests/test_it.py").write_text(FOLLOWING)
    (tree / "broken.txt").write_text("")
    assert outcomes(pytester) == {"passed": 2, "failed": 1}
    (tree / "broken.txt").unlink()
    assert outcomes(pytester) == {"passed": 2, "deselected": 1}
    assert outcomes(pytester) == {"deselected": 3}


MANY = """
import pathlib, pytest

@pytest.mark.parametrize("cell", range(20))
@pytest.mark.depends_on("product", drawn=True)
def test_cell(cell):
    assert str(cell) != pathlib.Path("broken.txt").read_text()

@pytest.mark.depends_on("product")
def test_never_drawn():
    pass
"""
GIT = ("git", "-c", "user.name=somebody", "-c", "user.email=somebody@example.org", "-c", "commit.gpgsign=false")


def drawn_of(pytester: pytest.Pytester, *arguments: str) -> str:
    """What a run says that it has drawn, where all that may be drawn is proven."""
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", *arguments, "tests")
    assert {name: count for name, count in result.parseoutcomes().items() if count}["passed"] == proven.DRAWN
    return next(line for line in result.outlines if line.startswith("run although proven, drawn by "))


@pytest.fixture
def proven_cells(tree: Path, pytester: pytest.Pytester) -> Path:
    (tree / "tests/test_it.py").write_text(MANY)
    (tree / "broken.txt").write_text("")
    assert outcomes(pytester) == {"passed": 21}
    return tree


def test_a_few_proven_cells_run_all_the_same_and_another_few_with_each_commit(
    proven_cells: Path, pytester: pytest.Pytester
) -> None:
    subprocess.run([*GIT, "init", "-q"], cwd=proven_cells, check=True)
    drawn = []
    for _ in range(2):
        subprocess.run([*GIT, "commit", "-q", "--allow-empty", "-m", "one"], cwd=proven_cells, check=True)
        drawn.append(drawn_of(pytester))
        assert f"by commit {str(proven.commit(proven_cells))[:12]}: test_it.py::test_cell[" in drawn[-1]
        assert drawn_of(pytester) == drawn[-1]
    assert drawn[0] != drawn[1]
    assert "never_drawn" not in "".join(drawn)


def test_without_a_commit_what_cells_depend_on_draws_and_processes_agree(
    proven_cells: Path, pytester: pytest.Pytester
) -> None:
    alone = drawn_of(pytester)
    assert "without a commit: test_it.py::test_cell[" in alone
    assert drawn_of(pytester, "-p", "xdist", "-n", "2", "--dist", "loadgroup") == alone


def test_a_cell_that_fails_when_it_is_drawn_runs_until_it_passes(proven_cells: Path, pytester: pytest.Pytester) -> None:
    cell = drawn_of(pytester).partition("test_cell[")[2].partition("]")[0]
    # No file that it names.
    (proven_cells / "broken.txt").write_text(cell)
    for _ in range(2):
        assert outcomes(pytester)["failed"] == 1
        assert not any(f"[{cell}]" in test for test in proven.read(proven_cells / "tests/proven.toml"))
    (proven_cells / "broken.txt").write_text("")
    assert "failed" not in outcomes(pytester)
    assert len(proven.read(proven_cells / "tests/proven.toml")) == 21


def test_every_cell_is_drawn_sooner_or_later() -> None:
    cells = [f"cell {number}" for number in range(24)]
    draws = [proven.draw(cells, by=f"commit {number}") for number in range(100)]
    assert {cell for draw in draws for cell in draw} == set(cells)
    assert all(len(draw) == len(set(draw)) == proven.DRAWN for draw in draws)
    assert proven.draw(cells[:2], by="any") == cells[:2]
    assert proven.draw([], by="any") == []


def test_a_path_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="gone"):
        proven.digest(tmp_path, ["gone"])


def test_files_are_told_apart_by_name_and_by_where_one_ends(tmp_path: Path) -> None:
    digests = set()
    for names in (("a", "b"), ("a", "c"), ("ab", "")):
        folder = tmp_path / "-".join(names)
        folder.mkdir()
        for name in filter(None, names):
            (folder / name).write_text(name)
        digests.add(proven.digest(folder, ["."]))
    assert len(digests) == 3
