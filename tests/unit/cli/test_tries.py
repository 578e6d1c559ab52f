"""The file of a series: a try takes its level when it begins, and a chain is claimed between commits alone."""

from pathlib import Path
from typing import Any

import pytest

from orchestrator.analysis.statistics import tries
from orchestrator.cli.exits import CommandError
from orchestrator.cli.rest.tries import Series


@pytest.fixture
def series(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Series:
    monkeypatch.setenv("TBD_DATA_DIR", str(tmp_path))
    return Series("tune")


def sides(*commits: str | None, dirty: str | None = None) -> list[dict[str, Any]]:
    return [{"label": f"code={one}", "commit": one, "dirty_sha256": dirty} for one in commits]


def pair(value: float, half: float, blocks: int = 6) -> dict[str, Any]:
    quantity = {"value": value, "ci_low": value * (1 - half), "ci_high": value * (1 + half), "confidence": 0.95}
    return {"ratio": quantity, "blocks": blocks}


def test_a_try_that_was_broken_off_has_spent_its_level(series: Series) -> None:
    begun = [series.begin(sides("a", "b")) for _ in range(3)]
    assert [one.number for one in begun] == [1, 2, 3]
    assert [one.level for one in begun] == [tries.level(number) for number in (1, 2, 3)]
    assert Series("tune").begin(sides("a", "b")).number == 4
    assert Series("other").begin(sides("a", "b")).number == 1


def test_what_is_kept_is_told_with_what_would_have_been_seen_and_the_chain_is_first_against_last(
    series: Series,
) -> None:
    with pytest.raises(CommandError, match="kept no edit"):
        series.ends()
    for edited, found, kept in [("b", pair(1.3, 0.01), True), ("c", pair(1.001, 0.01), False), ("d", None, False)]:
        said = series.end(series.begin(sides("a" if edited == "b" else "b", edited)), found, "exp_1")
        assert ("not kept" not in said) is kept
        assert ("would have been seen" in said) is (found is not None)
    series.end(series.begin(sides("b", "e")), pair(1.4, 0.01), "exp_2")
    assert series.ends() == ("a", "e")


@pytest.mark.parametrize("told", [sides("a", None), sides("a", "b", dirty="00")])
def test_what_was_no_commit_is_not_claimed(told: list[dict[str, Any]], series: Series) -> None:
    series.end(series.begin(told), pair(1.3, 0.01), "exp_1")
    with pytest.raises(CommandError, match="commit each edit"):
        series.ends()


@pytest.mark.parametrize("name", ["", "../up", "Tune", "a" * 101])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(CommandError, match="small letters"):
        Series(name)


def test_a_damaged_file_is_not_taken_for_an_empty_one(series: Series) -> None:
    series.begin(sides("a", "b"))
    series.path.write_text(series.path.read_text() + "{")
    with pytest.raises(CommandError, match="damaged"):
        series.begin(sides("a", "b"))
