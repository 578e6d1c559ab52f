"""Cron expressions: what they name, when they fire, and what they do where clocks are changed."""

import random
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

import pytest

from orchestrator.domain.around.cron import NICKNAMES, parse_cron
from tests.support import cron_oracle
from tests.support.cron_oracle import Wall, epoch


def until(end: float, times: Iterator[float]) -> list[float]:
    return list(takewhile(lambda time: time < end, times))


def fires(text: str, zone: str, start: str, end: str) -> list[str]:
    """The times from ``start`` (a local date) to before ``end``, as the clock on the wall shows them."""
    local = ZoneInfo(zone)
    first, last = (datetime.fromisoformat(day).replace(tzinfo=local).timestamp() for day in (start, end))
    times = until(last, parse_cron(text).times(local, first - 1))
    return [f"{datetime.fromtimestamp(time, local):%d %H:%M %z}" for time in times]


@pytest.mark.parametrize(
    ("text", "zone", "start", "end", "expected"),
    [
        # Berlin, 2026-03-29: from 01:59 to 03:00. A time of day that does not exist fires when the clock has jumped.
        ("30 2 * * *", "Europe/Berlin", "2026-03-28", "2026-03-30", ["28 02:30 +0100", "29 03:00 +0200"]),
        ("0,30 2 * * *", "Europe/Berlin", "2026-03-29", "2026-03-30", ["29 03:00 +0200"]),
        ("30 2,3 * * *", "Europe/Berlin", "2026-03-29", "2026-03-30", ["29 03:00 +0200", "29 03:30 +0200"]),
        ("0 2-3 * * *", "Europe/Berlin", "2026-03-29", "2026-03-30", ["29 03:00 +0200"]),
        # What follows the clock on the wall fires when the wall shows it.
        ("30 */2 * * *", "Europe/Berlin", "2026-03-29", "2026-03-29T06:00", ["29 00:30 +0100", "29 04:30 +0200"]),
        ("*/30 2 * * *", "Europe/Berlin", "2026-03-29", "2026-03-30", []),
        # 2026-10-25: from 02:59 back to 02:00.
        ("30 2 * * *", "Europe/Berlin", "2026-10-25", "2026-10-26", ["25 02:30 +0200"]),
        ("30 * * * *", "Europe/Berlin", "2026-10-25T02:00", "2026-10-25T03:00", ["25 02:30 +0200", "25 02:30 +0100"]),
        # Cairo, 2026-04-24: the day begins at 01:00. Its last day of summer, 10-29, has 23:00 to 24:00 twice.
        ("0 0 * * *", "Africa/Cairo", "2026-04-23", "2026-04-25", ["23 00:00 +0200", "24 01:00 +0300"]),
        ("30 23 * * *", "Africa/Cairo", "2026-10-29", "2026-10-30", ["29 23:30 +0300"]),
        ("0 0 * * *", "Africa/Cairo", "2026-10-29", "2026-10-31", ["29 00:00 +0300", "30 00:00 +0200"]),
        # Lord Howe, half an hour: 2026-10-04 from 01:59 to 02:30, 2026-04-05 from 01:59 back to 01:30.
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-04", "2026-10-05", ["04 02:30 +1100"]),
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-05", "2026-04-06", ["05 01:45 +1100"]),
        # Apia had no 2011-12-30 at all.
        ("30 2 * * *", "Pacific/Apia", "2011-12-30", "2012-01-01", ["31 00:00 +1400", "31 02:30 +1400"]),
    ],
)  # fmt: skip
def test_where_clocks_are_changed_it_does_as_vixie_cron(
    text: str, zone: str, start: str, end: str, expected: list[str]
) -> None:
    assert fires(text, zone, start, end) == expected


def test_days_of_month_and_of_week_are_either_where_both_are_restricted() -> None:
    assert fires("0 0 13 * FRI", "UTC", "2026-02-01", "2026-02-21") == [f"{day:02} 00:00 +0000" for day in (6, 13, 20)]
    assert fires("0 0 13 * FRI", "UTC", "2026-06-12", "2026-06-20") == [f"{day:02} 00:00 +0000" for day in (12, 13, 19)]
    assert fires("0 0 */13 * FRI", "UTC", "2026-01-01", "2026-03-01") == ["27 00:00 +0000"]  # a star: both
    assert fires("0 0 29 2 *", "UTC", "2026-01-01", "2032-12-31") == ["29 00:00 +0000"] * 2


@pytest.mark.parametrize(
    ("text", "same"),
    [
        *NICKNAMES.items(),
        ("@DAILY", "0 0 * * *"),
        ("  0  2 * *   * ", "0 2 * * *"),
        ("0 0 * jan-MAR sun", "0 0 * 1-3 0"),
        ("0 0 * * 7", "0 0 * * 0"),
        ("0 0 * * FRI-SUN", "0 0 * * 5,6,0"),
        ("0 0 * * 5-7", "0 0 * * 5,6,0"),
        ("0-59/15 0 * * 1,3-5", "0,15,30,45 0 * * MON,WED,THU,FRI"),
    ],
)
def test_what_is_written_differently_is_the_same(text: str, same: str) -> None:
    start = epoch(2026)
    one, other = (list(islice(parse_cron(each).times(UTC, start), 50)) for each in (text, same))
    assert one == other


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "has five fields"),
        ("0 2 * *", "this has 4"),
        ("0 0 2 * * *", "this has 6"),
        ("@reboot", "none of @yearly"),
        ("60 2 * * *", "minute: '60' is none of 0 to 59"),
        ("0 24 * * *", "hour: '24'"),
        ("0 0 0 * *", "day of month: '0'"),
        ("0 0 * 13 *", "month: '13' is none of 1 to 12 or JAN to DEC"),
        ("0 0 * * 8", "day of week: '8'"),
        ("0 0 * * MONDAY", "day of week: 'MONDAY'"),
        ("0 9-5 * * *", "hour: '9-5' is none of 0 to 23, * or a range upward"),
        ("*/0 * * * *", "has no step"),
        ("*/60 * * * *", "no step from 1 to 59"),
        ("5/15 * * * *", "minute: '5/15' is none of"),
        ("1,,2 * * * *", "minute: ''"),
        ("1-2-3 * * * *", "minute: '1-2-3'"),
        ("-1 * * * *", "minute: '-1'"),
        ("0 0 L * *", "day of month: 'L'"),
        ("0 0 LW * *", "day of month: 'LW'"),
        ("0 0 * * 5L", "day of week: '5L'"),
        ("0 0 * * FRI#2", "day of week: 'FRI#2'"),
        ("٣ 0 * * *", "minute: '٣'"),
        ("0 0 30 2 *", "never fires"),
        ("0 0 31 4,6,9,11 *", "never fires"),
    ],
)
def test_what_is_no_expression_is_refused_with_the_field(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        parse_cron(text)


def test_it_ends_with_the_calendar_and_begins_before_it() -> None:
    daily = parse_cron("@daily")
    assert list(daily.times(UTC, 253402300800.0 - 86400)) == []
    assert next(daily.times(ZoneInfo("Pacific/Apia"), 0.0)) > 0.0


def test_drawn_expressions_fire_as_the_oracle_says_around_every_change_of_a_clock() -> None:
    """The whole year, and a thousand of them: ``make schedules-year``."""
    chance = random.Random(7)
    weeks = (("Europe/Berlin", 3, 27), ("Australia/Lord_Howe", 4, 3), ("Africa/Cairo", 10, 28), ("Africa/Cairo", 4, 22))
    for name, month, day in weeks:
        start = epoch(2026, month, day)
        wall = Wall(ZoneInfo(name), start, start + 4 * 86400)
        for number in range(40):
            drawn = cron_oracle.drawn(chance, "night" if number % 2 else "any")
            assert until(wall.end, parse_cron(drawn.text).times(wall.zone, start - 1)) == wall.fires(drawn), drawn.text
