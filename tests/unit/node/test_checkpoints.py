"""Where a node keeps the checkpoints of a run, and when they go."""

import os
import time
from pathlib import Path

import pytest

from workers.node import checkpoints

PROCESSES = [{"node": "one", "ranks": [0]}, {"node": "two", "ranks": [1]}]


def job(mode: str = "convergence", run_id: str = "run_1") -> dict[str, object]:
    return {"run_id": run_id, "plan": {"mode": mode}, "processes": PROCESSES}


def kept(given: dict[str, object]) -> Path:
    folder = Path(given["checkpoints"]["folder"])  # type: ignore[index]
    folder.mkdir(parents=True)
    (folder / "one.npz").write_bytes(b"1")
    return folder


def test_only_a_run_to_convergence_has_a_folder_and_it_lies_in_the_agents_own(tmp_path: Path) -> None:
    assert "checkpoints" not in checkpoints.given(job("throughput"), tmp_path)
    assert "checkpoints" not in checkpoints.given(job(run_id="../elsewhere"), tmp_path)
    told = checkpoints.given(job(), tmp_path)["checkpoints"]
    assert told == {"folder": str(tmp_path / "checkpoints" / "run_1"), "shared": False}


def test_the_setting_names_a_folder_that_nodes_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TBD_CHECKPOINTS", str(tmp_path / "shared"))
    told = checkpoints.given(job(), tmp_path)["checkpoints"]
    assert told == {"folder": str(tmp_path / "shared" / "run_1"), "shared": True}


@pytest.mark.parametrize(
    ("failure", "node", "stays"),
    [
        (None, "one", False),
        ({"kind": "cancelled"}, "one", False),
        ({"kind": "crashed"}, "one", True),
        # Its own processes ended well; those of rank 0 may not have.
        (None, "two", True),
    ],
)
def test_they_go_when_no_attempt_can_follow(
    tmp_path: Path, failure: dict[str, str] | None, node: str, stays: bool
) -> None:
    told = checkpoints.given(job(), tmp_path)
    folder = kept(told)
    checkpoints.settle(told, failure, node)
    assert folder.exists() is stays


def test_those_of_runs_that_never_came_again_go_after_a_week(tmp_path: Path) -> None:
    old, new = (kept(checkpoints.given(job(run_id=name), tmp_path)) for name in ("old", "new"))
    long_ago = time.time() - 8 * 24 * 3600
    os.utime(old, (long_ago, long_ago))
    checkpoints.tidy(tmp_path)
    assert (old.exists(), new.exists()) == (False, True)
