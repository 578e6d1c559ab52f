"""The rules on imports hold, and they bite: a planted import that breaks one is found."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PLANTED = {
    "orchestrator/domain/planted.py": ("import orchestrator.services.experiment.submit", "imports point inward"),
    "orchestrator/analysis/planted.py": ("import subprocess", "do no input or output"),
    "orchestrator/services/planted.py": ("import ray", "Ray only in the cluster adapter"),
    "orchestrator/api/planted.py": ("import sqlalchemy", "SQL only in the database adapter"),
    "orchestrator/web/planted.py": ("import orchestrator.db.store", "pages ask REST"),
    "suites/models/planted.py": ("import orchestrator.domain.asked.plan", "trainer and the suites import nothing"),
    "workers/node/planted.py": ("import workers.trainer.loops.pace", "the node agent imports the protocol"),
    "suites/assemble/planted.py": ("import workers.trainer.host", "the trainer stands on the suites"),
    "workers/trainer/base/planted.py": ("import suites.quality", "the trainer stands on the suites"),
    "orchestrator/reports/planted.py": ("import workers.node.agent", "only the cluster adapters and the command line"),
}


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    environment = {**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "300"}  # names of contracts are not to be folded
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the packages in which a test may plant files."""
    folder = tmp_path_factory.mktemp("tree")
    for package in ("orchestrator", "workers", "suites"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def test_the_tree_keeps_the_rules(tree: Path) -> None:
    result = lint(tree)
    assert result.returncode == 0, result.stdout


def test_every_part_of_the_trainer_has_its_layer() -> None:
    """A contract of layers says nothing of a module that it does not name."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (one["layers"] for one in contracts if "workers.trainer.base" in one.get("layers", ()))
    named = {module for layer in layers for module in layer.split(" : ")}
    parts = {f"workers.trainer.{path.stem}" for path in (ROOT / "workers" / "trainer").glob("[!.]*")}
    assert named == {"suites", *parts - {"workers.trainer.__init__", "workers.trainer.__pycache__"}}


def test_every_planted_import_is_found(tree: Path) -> None:
    """All at once: each contract is reported by its name."""
    for name, (line, _) in PLANTED.items():
        (tree / name).write_text(f"{line}\n")
    try:
        result = lint(tree)
    finally:
        for name in PLANTED:
            (tree / name).unlink()
    assert result.returncode != 0
    for name, (line, contract) in PLANTED.items():
        broken = [text for text in result.stdout.splitlines() if contract in text and "BROKEN" in text]
        assert broken, f"{line} in {name} was not found:\n{result.stdout}"


def test_a_server_does_not_hold_all_of_scipy() -> None:
    """``scipy.stats`` and ``scipy.optimize`` are 45 MB of an idle server, for a quantile and a root."""
    code = "import sys, orchestrator.app; print({'scipy.stats', 'scipy.optimize'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
