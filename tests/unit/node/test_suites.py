"""What a confirmation makes again on a node: variables, and models' code of earlier commits."""

import os
from pathlib import Path
from typing import Any

import pytest

from deploy.gate_demo import Repository
from workers.node import children, prepare, suites


def job(repository: Repository | None = None, **interpreter: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"model": {"name": "waiting-net", "module": "waiting_net"}, "interpreter": interpreter}
    return found | ({"suite_path": [str(repository.folder)]} if repository else {})


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "suite")


def test_a_model_from_outside_the_tree_tells_its_commit_and_what_differs_from_it(repository: Repository) -> None:
    commit = repository.commit(0.01, "as it was")
    assert suites.code_of(job(repository)) == {"commit": commit, "dirty_sha256": None}
    (repository.folder / "waiting_net" / "__pycache__").mkdir()
    (repository.folder / "waiting_net" / "__pycache__" / "sleep.pyc").touch()
    assert suites.code_of(job(repository)) == {"commit": commit, "dirty_sha256": None}
    (repository.folder / "waiting_net" / "more.py").touch()
    assert suites.code_of(job(repository))["dirty_sha256"] is not None  # type: ignore[index]
    ours = {"model": {"module": "suites.models.resnet_50"}, "interpreter": {}}
    assert suites.code_of(ours) is None


def test_an_earlier_commit_stands_in_the_folders_place_and_the_folder_stays_as_it_is(
    repository: Repository, tmp_path: Path
) -> None:
    old = repository.commit(0.01, "as it was")
    repository.commit(0.02, "a costly operator")
    wanted = job(repository, suite_commit=old)
    wanted["suite_path"] = ["/elsewhere", *wanted["suite_path"]]
    found = suites.checked_out(wanted, tmp_path / "attempt" / "suite")
    assert found == ["/elsewhere", str(tmp_path / "attempt" / "suite")]
    assert "STEP_S = 0.01 " in (Path(found[1]) / "waiting_net" / "sleep.py").read_text()
    assert "STEP_S = 0.02 " in (repository.folder / "waiting_net" / "sleep.py").read_text()
    assert suites.code_of(wanted | {"suite_path": found}) == {"commit": old, "dirty_sha256": None}


@pytest.mark.parametrize(
    ("commit", "why"), [("0" * 40, "cannot be had"), ("--output=/etc/passwd", "is no commit"), ("HEAD", "is no commit")]
)
def test_a_commit_that_is_gone_or_none_is_an_error_that_names_it(
    repository: Repository, tmp_path: Path, commit: str, why: str
) -> None:
    repository.commit(0.01, "as it was")
    with pytest.raises(suites.SuiteError, match=why):
        suites.checked_out(job(repository, suite_commit=commit), tmp_path / "attempt")


def test_processes_inherit_the_variables_that_a_job_fixes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "SSE41")
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
    found = children.inherited(job(variables={"ONEDNN_MAX_CPU_ISA": None, "MALLOC_ARENA_MAX": "2"}))
    assert ("ONEDNN_MAX_CPU_ISA" in found, found["MALLOC_ARENA_MAX"]) == (False, "2")
    assert children.inherited(job()) == dict(os.environ)


@pytest.mark.parametrize("name", ["LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "PATH"])
def test_a_job_fixes_no_variable_but_those_that_agents_record(name: str) -> None:
    prepare._check_variables({"ONEDNN_MAX_CPU_ISA": "SSE41"})
    with pytest.raises(prepare.SetupError, match=name):
        prepare._check_variables({name: "/tmp/x"})
