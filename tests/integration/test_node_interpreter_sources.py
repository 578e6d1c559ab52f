"""Packages built from source: real builds, of a package that needs nothing from a package index."""

import os
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from workers.node import interpreters
from workers.node.interpreters import InterpreterError, sources

PYTHON = "{}.{}".format(*sys.version_info)

DEFINITION = """
name = "compiled"
framework = "none"
packages = ["thing"]
python = "{python}"
[variants.cpu]
requirements = "requirements.txt"
download_bytes = 1
installed_bytes = 1
[[source]]
requirement = "thing==1.0"
against = []
build_requirements = []
programs = ["{program}"]
packages = ["the-package"]
cxx_standard = 17
minutes = 0.1
[source.environment]
COUNT = "{count}"
COLOUR = "{colour}"
[[source]]
requirement = "never==1.0"
variant = "another"
"""

# Builds without anything: what a C++ build would be told goes into the module that it makes.
BACKEND = """
import os, zipfile

def build_wheel(folder, settings=None, metadata=None):
    with open(os.environ["COUNT"], "a") as count:
        count.write("built\\n")
    name = "thing-1.0-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        wheel.writestr("thing.py", "COLOUR = %r\\nCXX = %r\\n" % (os.environ["COLOUR"], os.environ["CXX"]))
        wheel.writestr("thing-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: thing\\nVersion: 1.0\\n")
        wheel.writestr("thing-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("thing-1.0.dist-info/RECORD", "")
    return name
"""


class Definition:
    """A definition that can be rewritten, and the number of times that its package was built."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._count = folder / "count"

    def write(self, colour: str = "red", program: str = "g++", comment: str = "") -> None:
        place = self.folder / "definitions" / "compiled"
        place.mkdir(parents=True, exist_ok=True)
        text = DEFINITION.format(python=PYTHON, program=program, count=self._count, colour=colour)
        (place / "interpreter.toml").write_text(text)
        (place / "requirements.txt").write_text(comment)
        (place / "proof.py").write_text("import thing\nprint(thing.COLOUR, thing.CXX)\n")

    @property
    def builds(self) -> int:
        return len(self._count.read_text().splitlines()) if self._count.exists() else 0


@pytest.fixture
def definition(tmp_path, monkeypatch):
    source = tmp_path / "thing-1.0"
    source.mkdir()
    (source / "backend.py").write_text(BACKEND)
    (source / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    )
    (source / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n")
    (tmp_path / "index").mkdir()
    with tarfile.open(tmp_path / "index" / "thing-1.0.tar.gz", "w:gz") as archive:
        archive.add(source, "thing-1.0")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    real = interpreters.definitions
    monkeypatch.setattr(interpreters, "definitions", lambda: real(tmp_path / "definitions"))
    monkeypatch.setenv("TBD_INTERPRETERS_DIR", str(tmp_path / "built"))
    found = Definition(tmp_path)
    found.write()
    return found


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++ here")
@pytest.mark.after_change
def test_a_package_is_built_from_source_once_and_its_wheel_kept(definition):
    said = []
    assert interpreters.install("compiled", said.append).ready
    assert definition.builds == 1
    assert interpreters.record("compiled")["proof"].startswith("red ")
    assert any("building thing==1.0 from source" in line for line in said)
    assert "thing" in interpreters.describe()[-1]["versions"]
    assert interpreters.remove("compiled") == 1
    definition.write(comment="# a pin that the package is not compiled against\n")
    began = time.monotonic()
    assert interpreters.install("compiled").ready
    assert definition.builds == 1
    assert time.monotonic() - began < 60
    definition.write(colour="blue")
    assert interpreters.install("compiled").ready
    assert interpreters.record("compiled")["proof"].startswith("blue ")
    assert definition.builds == 2


def test_what_a_build_needs_of_the_machine_is_asked_for_by_its_package(definition):
    definition.write(program="no-such-compiler")
    with pytest.raises(InterpreterError, match="no-such-compiler missing: `apt-get install the-package`"):
        interpreters.install("compiled")
    assert definition.builds == 0


@pytest.mark.after_change
def test_a_build_that_fails_is_an_error_and_leaves_no_wheel(definition):
    (definition.folder / "index" / "thing-1.0.tar.gz").unlink()
    with pytest.raises(InterpreterError, match=r"building thing==1.0 failed"):
        interpreters.install("compiled")
    assert not interpreters.resolve("compiled").ready
    assert [path.name for path in (definition.folder / "built" / "wheels").iterdir()] == []


@pytest.mark.parametrize(
    ("given", "used"),
    [("-std=c++14", "-std=c++17"), ("-std=gnu++11", "-std=c++17"), ("-std=c++20", "-std=c++20"), ("-O2", "-O2")],
)
def test_the_compiler_of_a_build_is_told_a_standard_that_is_new_enough(given, used, tmp_path, monkeypatch):
    compiler = tmp_path / "bin" / "g++"
    compiler.parent.mkdir()
    compiler.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{compiler.parent}{os.pathsep}{os.environ['PATH']}")
    script = sources.compiler(tmp_path / "c++", 17)
    done = subprocess.run([str(script), given, "a b.cc"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [used, "a b.cc"]


def test_a_wheel_is_not_shared_between_versions_of_what_it_is_compiled_against(tmp_path):
    requirements = tmp_path / "requirements.txt"
    table = {"requirement": "thing==1.0", "against": ["Big_Library"], "build_requirements": [], "minutes": 1}
    facts = {"source": [{**table, "programs": [], "packages": []}]}
    keys = []
    for pins in ("big-library==1\nother==1\n", "big-library==1\nother==2\n", "big-library==2\nother==2\n"):
        requirements.write_text(pins)
        keys += [source.key for source in sources.of_facts(facts, "cpu", requirements, ["3.11"])]
    assert keys[0] == keys[1] != keys[2]
    other = sources.of_facts(facts, "cpu", requirements, ["3.12"])
    assert other[0].key != keys[2]
