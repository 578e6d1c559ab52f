"""docs/extend/adding-a-model.md, followed: its files are written, and its commands are run."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from orchestrator.services.facts.catalog import load_catalog
from tests.trainer_process import ROOT
from workers.node import interpreters

PAGE = (ROOT / "docs" / "extend" / "adding-a-model.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAME = "two-convolutions"


class Followed:
    """A folder in which somebody has followed the page as far as its files go."""

    def __init__(self, folder: Path) -> None:
        self.suite = folder / "suite"
        for language, text in BLOCK.findall(PAGE):
            if language != "sh":
                path = self.suite / text.splitlines()[0].removeprefix("# ")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        (self.suite / "two_convolutions" / "__init__.py").touch()
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TBD_SUITE")}
        ours = {"TBD_DATA_DIR": folder / "data", "TBD_LOCK_DIR": folder / "locks", "TBD_SUITE_PATH": self.suite}
        self._environment = kept | {name: str(path) for name, path in ours.items()} | {"TBD_CLUSTER": "local"}
        self._environment["PYTHONPATH"] = str(ROOT)

    def tbd(self, line: str, *more: str, code: int = 0, **settings: str) -> str:
        """Run a line of the page; return what it printed."""
        words = [sys.executable, "-m", "orchestrator.cli.main", *shlex.split(line)[1:], *more]
        done = subprocess.run(
            words,
            cwd=self.suite,
            env=self._environment | settings,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Followed:
    return Followed(tmp_path_factory.mktemp("adding"))


def line(command: str) -> str:
    """The one line of the page's commands that begins so."""
    lines = [one for language, text in BLOCK.findall(PAGE) if language == "sh" for one in text.splitlines()]
    (found,) = (one for one in lines if one.startswith(command))
    return str(found)


def test_the_facts_are_those_of_its_layers(followed: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    from suites.assemble import layers

    monkeypatch.syspath_prepend(str(followed.suite))
    from two_convolutions import network  # type: ignore[import-not-found]

    model = load_catalog((followed.suite,)).models[NAME]
    for facts in model.sizes.values():
        described = network.layers(facts)
        assert layers.count(described) == facts.get("parameters", model.facts["parameters"])
        assert layers.flops(described) == facts["flops_per_sample"]
        assert described[0].flops() == facts["input_gradient_flops_per_sample"]


@pytest.mark.after_change
@pytest.mark.framework("pytorch")
def test_it_is_the_same_network_in_every_framework(followed: Followed, python_of: Any) -> None:
    for framework in ("pytorch", "mxnet"):
        python_of(framework)
    assert NAME in followed.tbd(line("tbd models"))
    found = json.loads(followed.tbd(line("tbd parity"), "--json"))
    assert {"pytorch", "mxnet"} <= set(found["frameworks"])
    assert set(found["frameworks"]) | set(found["skipped"]) == {"pytorch", "tensorflow", "mxnet", "cntk"}
    assert found["parameters"] == {"counted": 1946, "stated": 1946}


@pytest.mark.framework("pytorch")
@pytest.mark.after_change
def test_it_runs(followed: Followed, python_of: Any) -> None:
    for framework in ("pytorch", "mxnet"):
        python_of(framework)
    rows = json.loads(followed.tbd(line("tbd run"), "--json"))["items"]
    assert {row["fingerprint"]["workload"]["framework"] for row in rows} == {"pytorch", "mxnet"}


@pytest.mark.framework("pytorch")
@pytest.mark.after_change
def test_a_mistake_is_found_a_wrong_count_told_and_what_is_not_installed_skipped(
    followed: Followed, python_of: Any, tmp_path: Path
) -> None:
    """A ReLU that is forgotten in one framework, a count that was never made, and a machine without CNTK."""
    for framework in ("pytorch", "mxnet"):
        python_of(framework)
        folder = interpreters.definitions()[framework].folder
        (tmp_path / folder.name).symlink_to(folder)
    own = followed.suite / "two_convolutions"
    kept = {path: path.read_text() for path in (own / "mxnet.py", own / "model.toml")}
    try:
        (own / "mxnet.py").write_text(
            kept[own / "mxnet.py"].replace("F.relu(self.conv2(x_NCHW))", "self.conv2(x_NCHW)")
        )
        (own / "model.toml").write_text(kept[own / "model.toml"].replace("parameters = 1946", "parameters = 1900"))
        ours = {"TBD_INTERPRETERS_DIR": str(tmp_path)}
        told = followed.tbd(line("tbd parity"), "--frameworks", "mxnet,cntk", code=1, **ours)
    finally:
        for path, text in kept.items():
            path.write_text(text)
    assert "the gradient of conv1.weight is off" in told
    assert "1,946 parameters, and its facts state 1,900" in told
    assert "cntk was skipped: the interpreter cntk is not built on this host: run `tbd frameworks install cntk`" in told
