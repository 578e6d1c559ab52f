"""The table of docs/use/matrix.md: rates, speed-ups against the same strategy on one device, and the replicas."""

from pathlib import Path
from typing import Any

import pytest

from orchestrator.domain.asked.catalog import StrategyFacts
from tests.cluster.matrix import MARKS, Cell, Outcome, put_into, table

DDP = StrategyFacts("ddp", "pytorch", 8, 8, replica_tolerance=1e-6)


def outcome(topology: str, rate: float | None, codes: tuple[str, ...] = (), distance: float | None = None) -> Outcome:
    found = None if rate is None else {"value": rate}
    run: dict[str, Any] = {
        "state": "failed" if rate is None else "completed",
        "failure": {"kind": "crashed"} if rate is None else None,
        "validity": {"reasons": [{"code": code} for code in codes]},
        "throughput": found,
    }
    measured = {} if distance is None else {"replica_distance_ratio": {"value": distance}}
    return Outcome(Cell("pytorch", DDP, topology), run, measured)


def rows(*outcomes: Outcome) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")[4:-1]] for line in table(outcomes).splitlines()[2:]]


def test_a_speed_up_is_against_the_same_strategy_on_one_device() -> None:
    assert rows(outcome("1x1", 10.0), outcome("2x1", 15.0, distance=0.0)) == [
        ["1x1", "10", "", "", ""],
        ["2x1", "15", "1.50", "equal", ""],
    ]


def test_what_was_disturbed_is_marked_in_the_rate_and_in_the_speed_up() -> None:
    assert rows(outcome("1x1", 10.0), outcome("1x2", 20.0, ("foreign_load",), 1e-7))[1] == [
        "1x2",
        "~20",
        "~2.00",
        "1.0e-07 apart, 1e-06 allowed",
        "foreign_load",
    ]


def test_a_failed_run_has_its_failure_in_place_of_numbers() -> None:
    assert rows(outcome("1x1", 10.0), outcome("2x1", None))[1] == ["2x1", "failed", "", "not compared", "crashed"]


def test_only_what_stands_between_the_marks_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "matrix.md"
    file.write_text(f"before\n{MARKS[0]}\nold\n{MARKS[1]}\nafter\n")
    put_into(file, "new")
    assert file.read_text() == f"before\n{MARKS[0]}\n\nnew\n\n{MARKS[1]}\nafter\n"
    file.write_text("nothing")
    with pytest.raises(ValueError, match="no lines"):
        put_into(file, "new")
