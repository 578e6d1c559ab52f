"""Schedules over a simulated year, beside an oracle: the quick version of ``make schedules-year``."""

from pathlib import Path

import pytest

from bench import schedules_year as year
from tests.support.cron_oracle import epoch

ZONES = ("Europe/Berlin", "Australia/Lord_Howe")
START, END = epoch(2026), epoch(2027)


@pytest.mark.after_change
def test_over_a_year_two_servers_submit_what_the_oracle_says_and_nothing_else(tmp_path: Path) -> None:
    dense = year.cases(40, 5, "any", "night", zones=ZONES)
    few = year.cases(24, 6, "seldom", zones=ZONES)
    expected = year.expected_of([*dense, *few], START, END)
    assert (
        year.different(
            {one.name: expected[one.name] for one in dense}, {o.name: year.named(o, START, END) for o in dense}
        )
        == []
    )
    fired, _ = year.served(few, tmp_path, START, END, seed=5)
    assert sum(map(len, fired.values())) > 100
    assert year.different({one.name: expected[one.name] for one in few}, fired) == []


def test_a_time_too_many_or_too_few_is_noticed() -> None:
    assert year.different({"a": [1, 2], "b": [3]}, {"a": [1], "b": [3]}) == ["a"]
    assert year.different({"a": [1, 2]}, {"a": [1, 2, 2]}) == ["a"]
