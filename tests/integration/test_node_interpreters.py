"""Building environments: real ones, of a definition that needs nothing from a package index."""

import ctypes
import json
import sys
import threading
from pathlib import Path

import pytest

from workers.node import interpreters, pythons
from workers.node.interpreters import InterpreterError
from workers.node.interpreters import __main__ as command_line

PYTHON = "{}.{}".format(*sys.version_info)


@pytest.fixture
def definition(tmp_path, monkeypatch):
    folder = tmp_path / "definitions" / "plain"
    folder.mkdir(parents=True)
    (folder / "interpreter.toml").write_text(
        f'name = "plain"\nframework = "none"\npackages = ["pip"]\npython = "{PYTHON}"\n[environment]\nMARK = "1"\n'
        '[variants.cpu]\nrequirements = "requirements.txt"\ndownload_bytes = 1\ninstalled_bytes = 1\n'
    )
    (folder / "requirements.txt").write_text("")
    (folder / "proof.py").write_text("import os\nprint('proved with', os.environ['MARK'])\n")
    real = interpreters.definitions
    monkeypatch.setattr(interpreters, "definitions", lambda: real(tmp_path / "definitions"))
    monkeypatch.setenv("TBD_INTERPRETERS_DIR", str(tmp_path / "built"))
    return folder


@pytest.mark.after_change
def test_an_interpreter_is_built_once_and_another_definition_is_another_environment(definition):
    before = interpreters.resolve("plain")
    assert not before.ready
    assert "tbd frameworks install plain" in before.reason
    said = []
    built = interpreters.install("plain", said.append)
    assert built.ready
    assert built.environment == {"MARK": "1"}
    assert interpreters.resolve("plain") == built
    assert interpreters.record("plain")["proof"] == "proved with 1"
    assert any("downloading about" in line for line in said)
    described = {one["name"]: one for one in interpreters.describe()}["plain"]
    assert described["framework"] == "none"
    assert described["versions"]["python"].startswith(PYTHON)
    del said[:]
    assert interpreters.install("plain", said.append) == built
    assert said == []
    (definition / "requirements.txt").write_text("# another\n")
    assert not interpreters.resolve("plain").ready
    assert interpreters.resolve("plain").definition != built.definition
    assert interpreters.resolve("plain", built.definition) == built  # the earlier one stays, with what it needs
    for gone in ("0" * 12, "../../elsewhere"):
        assert "is not on this host" in interpreters.resolve("plain", gone).reason


@pytest.mark.after_change
def test_of_several_those_are_built_that_can_be_had(definition, capsys):
    assert command_line.main(["install-some", "nowhere", "plain"]) == 0
    assert "going on without nowhere: there is no interpreter nowhere" in capsys.readouterr().err
    assert interpreters.resolve("plain").ready
    assert command_line.main(["install-some", "nowhere"]) == 1
    assert command_line.main(["install", "nowhere", "plain"]) == 1


@pytest.mark.after_change
def test_several_at_once_build_it_once_and_removing_removes_it(definition):
    said = []
    threads = [threading.Thread(target=interpreters.install, args=("plain", said.append)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert interpreters.resolve("plain").ready
    assert len([line for line in said if "downloading" in line]) == 1
    assert interpreters.remove("plain") == 1
    assert not interpreters.resolve("plain").ready


@pytest.mark.after_change
def test_a_package_that_cannot_be_had_is_an_error_with_the_end_of_what_pip_said(definition):
    (definition / "requirements.txt").write_text("./no-such-file.whl\n")
    with pytest.raises(InterpreterError, match=r"pip install failed with status 1:\n(.|\n)*no-such-file"):
        interpreters.install("plain")
    assert not interpreters.resolve("plain").ready


@pytest.mark.after_change
def test_an_environment_that_does_not_prove_itself_is_not_ready(definition):
    (definition / "proof.py").write_text("raise SystemExit('the loss did not fall')\n")
    with pytest.raises(InterpreterError, match="the loss did not fall"):
        interpreters.install("plain")
    assert not interpreters.resolve("plain").ready


@pytest.mark.after_change
def test_what_an_interrupted_build_has_left_is_removed(definition):
    folder = interpreters.definitions()["plain"].folder
    folder.mkdir(parents=True)
    (folder / ".building").write_text("1\n")
    (folder / "half").write_text("x")
    assert not interpreters.resolve("plain").ready
    assert interpreters.install("plain").ready
    assert not (folder / "half").exists()


def test_too_small_a_disk_is_said_before_anything_is_downloaded(definition):
    text = (definition / "interpreter.toml").read_text()
    (definition / "interpreter.toml").write_text(text.replace("download_bytes = 1", "download_bytes = 1" + "0" * 18))
    with pytest.raises(InterpreterError, match="TBD_INTERPRETERS_DIR"):
        interpreters.install("plain")


def test_a_python_that_is_nowhere_is_an_error_that_says_how_to_get_it(definition):
    text = (definition / "interpreter.toml").read_text()
    (definition / "interpreter.toml").write_text(text.replace(PYTHON, "3.99"))
    with pytest.raises(InterpreterError, match=r"pyenv install 3\.99"):
        interpreters.install("plain")


LIBRARY = '[system]\npackages = ["some-package"]\nprograms = ["ls"]\n[links]\n"lib/libold.so.1" = "{}"\n'


def needs(definition, library):
    text = (definition / "interpreter.toml").read_text().replace('MARK = "1"', 'MARK = "{folder}/lib"')
    (definition / "interpreter.toml").write_text(text + LIBRARY.format(library))


@pytest.mark.after_change
def test_a_library_of_the_machine_is_linked_into_the_environment_under_the_name_that_is_needed(definition):
    needs(definition, "libc.so.6")
    built = interpreters.install("plain")
    folder = built.environment["MARK"]
    assert interpreters.record("plain")["proof"] == "proved with " + folder
    ctypes.CDLL(folder + "/libold.so.1")
    (Path(folder) / "libold.so.1").unlink()
    assert not interpreters.resolve("plain").ready
    assert "apt-get install some-package" in interpreters.resolve("plain").reason


def test_a_part_of_the_system_that_is_missing_is_an_error_that_says_how_to_get_it(definition):
    needs(definition, "libnowhere.so.7")
    with pytest.raises(InterpreterError, match=r"libnowhere\.so\.7 missing: `apt-get install some-package`"):
        interpreters.install("plain")
    assert not interpreters.definitions()["plain"].folder.exists()


def test_an_unknown_name_is_an_error_that_names_those_there_are(definition):
    with pytest.raises(InterpreterError, match="plain"):
        interpreters.install("nothing")
    assert "plain" in interpreters.resolve("nothing").reason


def test_system_is_this_python_and_always_ready():
    assert interpreters.resolve("system").python == sys.executable
    assert interpreters.resolve("system").ready


def test_the_definitions_of_the_tree_pin_every_package_exactly():
    found = interpreters.definitions()
    assert {"pytorch", "tensorflow", "cntk", "datasets"} <= set(found)
    for folder in interpreters.DEFINITIONS.iterdir():
        for path in folder.glob("requirements*.txt"):
            for line in path.read_text().splitlines():
                assert "==" in line, f"{path}: {line}"


def test_this_python_is_found_by_its_version():
    assert pythons.find(PYTHON)
    json.dumps(interpreters.all_resolved())
