"""Set-up and a demo on machines that have Python 3.12 alone, and 3.13 alone: ``make demo`` in a fresh copy of the tree.

What is on PATH are links to the programs that a set-up needs, and to that one Python.
"""

import json
import os
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest

from tests.trainer_process import ROOT
from workers.node import pythons

PROGRAMS = ("bash", "sh", "env", "make", "git", "grep", "sed", "cat", "rm", "touch", "sort", "expand", "id", "dirname")
LIMIT_S = 1500
# The smallest experiment that has a number.
OPTIONS = "--size tiny --data synthetic --batch 2 --repeats 2 --max-repeats 2 --max-measure 1"


def copy_of_the_tree(to: Path) -> Path:
    """Return a folder with what git knows of this tree and what it would add."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)
    return to


def alone(version: str, folder: Path) -> str:
    """Return a PATH on which ``version`` is the only Python; skips where this machine does not have it."""
    python = pythons.find(version)
    if python is None:
        pytest.skip(pythons.how_to_get([version]))
    folder.mkdir()
    for program in PROGRAMS:
        found = shutil.which(program)
        assert found, program
        (folder / program).symlink_to(found)
    for name in ("python3", f"python{version}"):
        (folder / name).symlink_to(os.path.realpath(python))
    return str(folder)


@pytest.mark.after_change
@pytest.mark.timeout(LIMIT_S)
@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_set_up_and_a_demo_of_tensorflow_with_this_python_alone(version: str, tmp_path: Path) -> None:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TBD_", "CONDA"))}
    places = {
        "PATH": alone(version, tmp_path / "bin"),
        "PYENV_ROOT": str(tmp_path / "no-pyenv"),
        "TBD_INTERPRETERS_DIR": str(tmp_path / "interpreters"),
        "TBD_LOCK_DIR": str(tmp_path / "locks"),
    }
    tree = copy_of_the_tree(tmp_path / "tree")
    try:
        done = subprocess.run(
            ["make", "demo", "FRAMEWORKS=tensorflow", f"OPTIONS={OPTIONS}"],
            cwd=tree,
            env=inherited | places,
            capture_output=True,
            text=True,
            timeout=LIMIT_S - 60,
        )
        assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
        (row,) = [line for line in done.stdout.splitlines() if line.startswith("resnet-50  tensorflow")]
        assert "images/s" in done.stderr
        assert " ± " in row or " to " in row
        (record,) = (tmp_path / "interpreters").glob("tensorflow-*/interpreter.json")
        built = json.loads(record.read_text())
        assert built["python"].startswith(version + ".")
        with sqlite3.connect(tree / ".tbd" / "tbd.sqlite3") as database:
            entries = [
                json.loads(body) for (body,) in database.execute("SELECT body FROM entry WHERE kind = 'started'")
            ]
        # What trained was of this Python, and each run's log says so.
        assert {entry["data"]["python"] for entry in entries} == {built["python"]}
    finally:
        for name in ("interpreters", "tree"):
            shutil.rmtree(tmp_path / name, ignore_errors=True)  # gigabytes
