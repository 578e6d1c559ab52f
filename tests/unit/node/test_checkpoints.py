"""Where a node keeps the checkpoints of a run, and when they go."""

import os
import time
from pathlib import Path

import pytest

from workers.node import checkpoints

NEWEST = f"{12:012d}-{'0' * 64}.npz"
PROCESSES = [{"node": "one", "ranks": [0]}, {"node": "two", "ranks": [1]}]


def job(mode: str = "convergence", run_id: str = "run_1") -> dict[str, object]:
    return {"run_id": run_id, "plan": {"mode": mode}, "processes": PROCESSES}


def kept(given: dict[str, object]) -> Path:
    folder = Path(given["checkpoints"]["folder"])  # type: ignore[index]
    folder.mkdir(parents=True)
    (folder / NEWEST).write_bytes(b"1")
    return folder


def aged(folder: Path, days: float) -> None:
    long_ago = time.time() - days * 24 * 3600
    for path in (*folder.iterdir(), folder):
        os.utime(path, (long_ago, long_ago))


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
    old, new, going_on = (kept(checkpoints.given(job(run_id=name), tmp_path)) for name in ("old", "new", "going_on"))
    (old / "checkpoint.new").write_bytes(b"begun, and never finished")
    aged(old, days=8)
    aged(new, days=6)
    aged(going_on, days=8)
    (going_on / NEWEST).write_bytes(b"1")
    checkpoints.tidy(tmp_path / "checkpoints")
    assert [folder.exists() for folder in (old, new, going_on)] == [False, True, True]
    assert len(list((tmp_path / "checkpoints").iterdir())) == 2
    checkpoints.tidy(tmp_path / "nothing here")


def test_what_is_not_ours_stays_in_a_folder_that_nodes_share(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    foreign, nested, named_otherwise = (shared / name for name in ("results", "archive", "-notes"))
    for folder in (foreign, nested, named_otherwise):
        folder.mkdir(parents=True)
        (folder / NEWEST).write_bytes(b"1")
    (foreign / "weights.npz").write_bytes(b"somebody's own")
    (nested / "2025").mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / NEWEST).write_bytes(b"1")
    (shared / "link").symlink_to(elsewhere)
    (shared / NEWEST).write_bytes(b"1")
    for folder in (foreign, nested, named_otherwise, elsewhere):
        aged(folder, days=100)
    aged(shared, days=100)
    checkpoints.tidy(shared)
    assert sorted(path.name for path in shared.iterdir()) == sorted(["results", "archive", "-notes", "link", NEWEST])
    assert all((folder / NEWEST).exists() for folder in (foreign, nested, named_otherwise, elsewhere))


@pytest.mark.parametrize(("node", "stays"), [("one", False), ("two", True)])
def test_the_agent_of_rank_0_tidies_when_an_attempt_is_over_whatever_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, node: str, stays: bool
) -> None:
    monkeypatch.setenv("TBD_CHECKPOINTS", str(tmp_path / "shared"))
    old, own = (checkpoints.given(job(run_id=name), tmp_path) for name in ("old", "own"))
    aged(kept(old), days=8)
    kept(own)
    checkpoints.settle(own, {"kind": "crashed"}, node)
    assert Path(old["checkpoints"]["folder"]).exists() is stays
    assert Path(own["checkpoints"]["folder"]).exists()


def test_age_is_told_by_the_clock_that_dates_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = kept(checkpoints.given(job(), tmp_path))
    monkeypatch.setattr(time, "time", lambda: 4e9)  # a node whose clock is decades ahead
    checkpoints.tidy(tmp_path / "checkpoints")
    assert folder.exists()
