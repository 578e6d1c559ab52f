"""A service that is killed at calls of its ports, a few times of what `make faults` does for an hour."""

import time
from pathlib import Path

from tests.faults.kills import all_methods, check, told

KILLS = 3


def test_a_service_killed_at_its_calls_keeps_every_promise(tmp_path: Path) -> None:
    kills, evidence, broken = check(
        tmp_path, f"sqlite:///{tmp_path / 'tbd.sqlite3'}", "local", 1, time.monotonic() + 120.0, KILLS
    )
    assert not broken, told(kills, evidence, broken)
    assert evidence.acknowledged
    assert evidence.trainings, "the trainings have noted themselves"
    assert {method for method, _ in kills.hit} <= {*all_methods(), "nothing"}
