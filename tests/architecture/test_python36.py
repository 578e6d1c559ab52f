"""The island of Python 3.6: every interpreter of a framework must be able to import it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.trainer_process import python36

ROOT = Path(__file__).resolve().parent.parent.parent
ISLAND = ["workers/__init__.py", "workers/trainer", "suites"]


def vermin(*paths):
    command = [sys.executable, "-c", "import vermin; vermin.main()", "-t=3.6-", "--no-tips", "--violations", *paths]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_trainer_and_the_suites_need_no_newer_python_than_3_6():
    result = vermin(*ISLAND)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("newer", ["from __future__ import annotations\n", "print(x := 1)\n", "import dataclasses\n"])
def test_something_newer_would_be_found(tmp_path, newer):
    file = tmp_path / "planted.py"
    file.write_text(newer)
    assert vermin(str(file)).returncode != 0


@pytest.mark.skipif(python36() is None, reason="no Python 3.6 on this machine")
def test_every_module_of_the_island_compiles_in_python_3_6():
    files = [str(file) for folder in ISLAND for file in sorted((ROOT / folder).rglob("*.py"))]
    check = "import ast, sys; [ast.parse(open(p, encoding='utf-8').read(), p) for p in sys.argv[1:]]"
    result = subprocess.run([python36(), "-c", check, *files], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
