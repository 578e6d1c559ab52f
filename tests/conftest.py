"""Interpreters of the frameworks for tests that really train: named by the environment, else those built here."""

import os
import subprocess

import pytest

from tests.trainer_process import ROOT
from workers.node import interpreters


@pytest.fixture(scope="session")
def python_of():
    """Return a function: name of an interpreter -> path of its Python; skips the test where it is not built."""

    def find(name):
        python = os.environ.get("TBD_TEST_PYTHON_" + name.upper())
        resolved = interpreters.resolve(name)
        if not python and not resolved.ready:
            pytest.skip(resolved.reason)
        return python or resolved.python

    return find


@pytest.fixture(scope="session")
def photographs(python_of, tmp_path_factory):
    """The dataset of photographs, made once for all tests; its folder."""
    root = tmp_path_factory.mktemp("datasets") / "photographs"
    command = [python_of("datasets"), "-m", "suites.datasets.photographs.prepare", "--root", str(root)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return root
