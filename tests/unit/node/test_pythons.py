"""For which Python an environment is built and used: the definitions of the tree, and which of them applies."""

import json
import os
import sys
import tomllib
from pathlib import Path

import pytest

from workers.node import interpreters, prepare, pythons
from workers.node.interpreters import definition

SEVERAL = ("datasets", "pytorch", "tensorflow")


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of environments with none in it, on a host for CPUs."""
    monkeypatch.setenv("TBD_INTERPRETERS_DIR", str(tmp_path))
    monkeypatch.setenv("TBD_INTERPRETER_VARIANT", "cpu")
    monkeypatch.delenv(definition.PYTHON_SETTING, raising=False)
    return tmp_path


def as_built(wanted: definition.Definition, system_python: str = "3.0.0") -> None:
    """Leave what tells that an environment is built."""
    (wanted.folder / "bin").mkdir(parents=True)
    (wanted.folder / "bin" / "python").symlink_to(sys.executable)
    (wanted.folder / definition.RECORD).write_text(json.dumps({"python": system_python, "packages": []}))


def having(monkeypatch: pytest.MonkeyPatch, *versions: str) -> None:
    """Be on a host that has these Pythons."""
    monkeypatch.setattr(pythons, "find", lambda version: f"/there/python{version}" if version in versions else None)


@pytest.mark.parametrize("name", SEVERAL)
def test_an_environment_of_another_python_is_another_one_with_the_same_pins(name: str) -> None:
    choices = interpreters.definitions()[name].choices()
    assert [one.python for one in choices] == ["3.11", "3.12", "3.13"]
    assert len({one.hash for one in choices}) == 3
    assert len({one.requirements for one in choices}) == 1


@pytest.mark.parametrize(
    ("there", "taken"), [(("3.13", "3.12", "3.11"), "3.11"), (("3.13", "3.12"), "3.12"), (("3.13",), "3.13")]
)
def test_the_first_python_that_the_host_has_is_taken(monkeypatch, there: tuple[str, ...], taken: str) -> None:
    having(monkeypatch, *there)
    assert interpreters.for_this_host(interpreters.definitions()["tensorflow"]).python == taken


def test_what_is_built_stays_in_use_when_a_preferred_python_comes(monkeypatch) -> None:
    having(monkeypatch, "3.11", "3.12")
    as_built(interpreters.definitions()["tensorflow"].choices()[1], "3.12.1")
    assert interpreters.for_this_host(interpreters.definitions()["tensorflow"]).python == "3.12"
    assert interpreters.install("tensorflow").ready
    described = {one["name"]: one for one in interpreters.describe()}
    assert described["tensorflow"]["versions"] == {"python": "3.12.1"}


def test_a_job_gets_the_environment_that_it_was_planned_with_where_two_are_built() -> None:
    first, second, third = interpreters.definitions()["pytorch"].choices()
    as_built(first)
    as_built(second)
    assert interpreters.resolve("pytorch").definition == first.hash
    assert interpreters.resolve("pytorch", second.hash).python == str(second.folder / "bin" / "python")
    wanted = {"name": "pytorch", "definition": third.hash}
    with pytest.raises(prepare.SetupError, match="the environment with the same Python"):
        prepare._interpreter(wanted)


def test_a_setting_names_the_python_where_there_is_a_choice(monkeypatch) -> None:
    as_built(interpreters.definitions()["pytorch"])
    monkeypatch.setenv(definition.PYTHON_SETTING, "3.13")
    found = interpreters.definitions()
    assert {name: found[name].python for name in ("pytorch", "mxnet", "cntk")} == {
        "pytorch": "3.13",
        "mxnet": "3.11",
        "cntk": "3.6",
    }
    assert not interpreters.resolve("pytorch").ready
    monkeypatch.setenv(definition.PYTHON_SETTING, "3.14")
    assert "TBD_INTERPRETER_PYTHON=3.14" in interpreters.resolve("pytorch").reason


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("tensorflow", "needs Python 3.11, 3.12 or 3.13 with venv, none of which is on PATH"),
        ("mxnet", "needs Python 3.11 (MXNet 1.9.1 needs numpy 1.23.5, which has no wheel for a newer one) with venv"),
        ("horovod", "needs Python 3.11 (it holds TensorFlow 2.15 and numpy 1.23.5"),
        ("cntk", "needs Python 3.6 (CNTK 2.7 is compiled for"),
    ],
)
def test_where_none_will_do_the_error_says_which_would_why_and_how_to_get_it(monkeypatch, name, told) -> None:
    having(monkeypatch, "3.14")
    with pytest.raises(interpreters.InterpreterError) as refused:
        interpreters.install(name)
    assert told in str(refused.value)
    for way in ("apt-get install python3.", "pyenv install 3.", "uv python install 3.", "conda create"):
        assert way in str(refused.value)


def test_every_environment_says_for_which_pythons_it_is() -> None:
    facts = tomllib.loads((interpreters.DEFINITIONS / "pythons.toml").read_text())
    assert set(facts) == set(interpreters.definitions())
    for name, one in facts.items():
        assert ("pythons" in one) != ("why" in one), name


def test_pythons_are_looked_for_in_the_folders_of_pyenv_and_uv(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    version = "{}.{}".format(*sys.version_info)
    monkeypatch.setattr(sys, "_base_executable", "/nowhere", raising=False)
    assert pythons.find(version) is None
    here = tmp_path / "pyenv" / "versions" / f"{version}.9" / "bin" / f"python{version}"
    here.parent.mkdir(parents=True)
    os.symlink(os.path.realpath(sys.executable), here)
    assert pythons.first_of(["3.99", version]) == (version, str(here))
