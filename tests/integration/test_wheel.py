"""tbd from its wheel: built from this tree, installed into an environment of its own, used from another folder.

What tbd depends on is taken from the environment of the tests, by its path alone: the tree, which is installed there as
editable, cannot be seen through it.
"""

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.trainer_process import ROOT
from workers.node import code_version

COMMAND_S = 240
PACKAGES = ("orchestrator", "workers", "suites")

# A model that writes down what its process sees, and then is ResNet-50.
TELLS = """\
import json, os, sys
import suites, workers
first, *others = os.environ["PYTHONPATH"].split(os.pathsep)
seen = {{"offered": sorted(os.listdir(first)), "others": others, "path": sys.path}}
seen["ours"] = [os.path.realpath(module.__file__) for module in (workers, suites)]
with open({file!r}, "w") as file:
    json.dump(seen, file)
from suites.models.resnet_50.pytorch import *
"""


def run(*command: str, **options: Any) -> str:
    """Return the stdout of a command that ends with status 0."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_S, check=False, **options)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree, built with the pinned setuptools of this environment; the tree is left as it was."""
    folder = tmp_path_factory.mktemp("wheel")
    elsewhere = folder / "elsewhere.cfg"
    elsewhere.write_text(f"[build]\nbuild_base = {folder / 'build'}\n[egg_info]\negg_base = {folder}\n")
    offline = ["--no-build-isolation", "--no-deps", "--no-index", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", *offline, "--wheel-dir", str(folder), str(ROOT)]
    run(*command, env={**os.environ, "DIST_EXTRA_CONFIG": str(elsewhere)})
    (built,) = folder.glob("*.whl")
    return built


class Installed:
    """The wheel in an environment of its own, and a folder to work in that is not the tree."""

    def __init__(self, wheel: Path, folder: Path) -> None:
        self.root = folder / "environment"
        venv.create(self.root, with_pip=False, symlinks=True)
        self.python = str(self.root / "bin" / "python")
        offline = ["--no-deps", "--no-index", "--disable-pip-version-check", "--quiet"]
        run(sys.executable, "-m", "pip", "--python", self.python, "install", *offline, str(wheel))
        scheme = {"base": str(self.root), "platbase": str(self.root)}
        self.site = Path(sysconfig.get_path("purelib", "venv", vars=scheme))
        (self.site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
        self.work = folder / "work"
        self.work.mkdir()
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "TBD_")) and k != "VIRTUAL_ENV"}
        ours = {"TBD_DATA_DIR": folder / "data", "TBD_LOCK_DIR": folder / "locks", "TBD_SUITE_PATH": folder / "models"}
        self.environment = kept | {name: str(path) for name, path in ours.items()} | {"TBD_CLUSTER": "local"}

    def __call__(self, *command: str) -> str:
        return run(str(self.root / "bin" / command[0]), *command[1:], cwd=self.work, env=self.environment)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(wheel, tmp_path_factory.mktemp("installed"))


def test_the_wheel_holds_every_file_of_the_packages_and_the_record_of_its_commit_beside(wheel: Path) -> None:
    tracked = set(run("git", "-C", str(ROOT), "ls-files", *PACKAGES).split())
    there = {name for name in tracked if (ROOT / name).exists()}
    held = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith(PACKAGES)}
    assert len(there) > 200
    assert there - held == set()
    assert str(code_version.RECORD) in held


def test_our_packages_come_from_the_wheel_alone(installed: Installed) -> None:
    names = ", ".join(PACKAGES)
    ask = f"import json, sys, {names}; print(json.dumps([sys.path, [one.__file__ for one in ({names})]]))"
    path, files = json.loads(installed("python", "-c", ask))
    assert [Path(file) for file in files] == [installed.site / name / "__init__.py" for name in PACKAGES]
    assert str(ROOT) not in path


def test_version_and_commit_are_those_of_the_tree_it_was_built_from(installed: Installed, wheel: Path) -> None:
    of_the_tree = code_version.of_folder(ROOT)
    assert of_the_tree.commit
    version = wheel.name.split("-")[1]
    assert installed("tbd", "--version").startswith(f"tbd {version} (commit {of_the_tree.commit[:12]}")
    ask = "import json; from workers.node import code_version as c; print(json.dumps(c.code_version()))"
    assert json.loads(installed("python", "-c", ask))["commit"] == of_the_tree.commit


def test_the_interpreters_are_those_of_the_tree_by_name_and_definition(installed: Installed) -> None:
    ask = "from workers.node.interpreters import definitions; print([d.name + d.hash for d in definitions().values()])"
    told, ours = installed("python", "-c", ask), run(sys.executable, "-c", ask, cwd=ROOT)
    assert "pytorch" in told
    assert told == ours  # the hash of each: what was built from a checkout serves a wheel too
    assert "pytorch" in installed("tbd", "frameworks")


@pytest.mark.after_change
def test_the_ready_specs_are_planned_from_another_folder(installed: Installed) -> None:
    assert "resnet-50" in installed("tbd", "plan", "suites/quick.yaml")


@pytest.mark.framework("pytorch")
@pytest.mark.after_change
def test_a_pytorch_job_runs_from_another_folder_and_sees_of_ours_only_the_trainer_and_the_suites(
    installed: Installed, python_of: Any
) -> None:
    python_of("pytorch")
    seen = installed.work / "seen.json"
    model = Path(installed.environment["TBD_SUITE_PATH"]) / "tells"
    model.mkdir(parents=True)
    facts = (ROOT / "suites/models/resnet_50/model.toml").read_text()
    (model / "model.toml").write_text(facts.replace('name = "resnet-50"', 'name = "tells"'))
    (model / "network.py").write_text("from suites.models.resnet_50.network import *\n")
    (model / "__init__.py").touch()
    (model / "pytorch.py").write_text(TELLS.format(file=str(seen)))

    brief = ["--size", "tiny", "--batch", "1", "--repeats", "1", "--max-repeats", "1", "--max-steps", "5"]
    (row,) = json.loads(installed("tbd", "run", "tells", *brief, "--json"))["items"]

    told = json.loads(seen.read_text())
    assert told["offered"] == ["suites", "workers"]
    assert told["others"] == [str(model.parent)]
    assert told["ours"] == [str(installed.site.resolve() / name / "__init__.py") for name in ("workers", "suites")]
    hidden = (str(installed.root), str(ROOT), sysconfig.get_path("purelib"))
    assert [entry for entry in told["path"] if entry.startswith(hidden)] == []
    assert row["fingerprint"]["subject"]["code_commits"] == [code_version.of_folder(ROOT).commit]
