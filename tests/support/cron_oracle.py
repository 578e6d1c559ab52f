"""What a schedule must do, found without the code that does it: minute by minute, as Vixie cron walks through a day.

Expressions are drawn as sets of values, and their text is made from the sets' descriptions: nothing here parses one. A
zone's clock is read off at every single minute; nothing here knows of days, offsets or folds.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

MINUTE_S = 60
# Zones whose clocks do all that clocks do: none, an hour, half an hour, at midnight, at odd times, in either half of
# the year, forward only, twice a year around Ramadan, and once over a whole day (Apia in 2011).
ZONES = (
    "UTC",
    "Europe/Berlin",
    "Europe/London",
    "America/New_York",
    "America/St_Johns",
    "America/Havana",
    "America/Santiago",
    "Australia/Lord_Howe",
    "Australia/Sydney",
    "Pacific/Auckland",
    "Pacific/Chatham",
    "Africa/Cairo",
    "Africa/Casablanca",
    "Asia/Beirut",
    "Asia/Kolkata",
    "Asia/Kathmandu",
)
_EPOCH = datetime(1970, 1, 1).toordinal()
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_LONGEST = (0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


@dataclass(frozen=True)
class Expression:
    """A cron expression with what it means: for each field the values, and whether its text begins with a star."""

    text: str
    values: tuple[frozenset[int], ...]
    starred: tuple[bool, ...]

    def matches(self, minute: Any, hour: Any, day: Any, month: Any, weekday: Any) -> Any:
        """Whether it matches times of the clock on the wall; arguments are arrays of numbers."""
        hits = [np.isin(np.arange(60), sorted(wanted)) for wanted in self.values]
        # One field after another, each only where those before it match: these are few.
        left = np.flatnonzero(hits[1].take(hour))
        left = left[hits[0].take(minute[left])]
        now = np.zeros(len(minute), bool)
        by_date, by_week = hits[2][day[left]], hits[4][weekday[left]]
        on_day = by_date & by_week if self.starred[2] or self.starred[4] else by_date | by_week
        now[left] = hits[3][month[left]] & on_day
        return now

    def can_fire(self) -> bool:
        """Whether any month of it has any day of it."""
        is_either = not (self.starred[2] or self.starred[4])
        return is_either or any(day <= _LONGEST[month] for month in self.values[3] for day in self.values[2])


@dataclass
class Wall:
    """The clock on the wall of a zone, at each minute of [start, end). Seconds since the epoch."""

    zone: ZoneInfo
    start: int
    end: int
    times: Any = field(init=False)
    shown: Any = field(init=False)  # minutes since 1970 as the clock shows them
    fields: tuple[Any, ...] = field(init=False)
    before: Any = field(init=False)  # the latest minute that jobs have run for, at each of ``times``
    is_new: Any = field(init=False)
    jumps: Any = field(init=False)  # where the clock has gone on by more than a minute

    def __post_init__(self) -> None:
        self.times = np.arange(self.start, self.end, MINUTE_S)
        clock = (datetime.fromtimestamp(time, self.zone) for time in self.times.tolist())
        shown = ((one.toordinal() - _EPOCH) * 1440 + one.hour * 60 + one.minute for one in clock)
        self.shown = np.fromiter(shown, np.int64, len(self.times))
        self.fields = _fields(self.shown)
        # cron's virtual time: the latest minute for which jobs have run. It never goes back.
        latest = np.maximum.accumulate(self.shown)
        self.before = np.concatenate(([self.shown[0] - 1], latest[:-1]))
        self.is_new = self.shown > self.before
        self.jumps = np.flatnonzero(self.shown > self.before + 1)

    def fires(self, expression: Expression) -> list[int]:
        """When cron runs the job."""
        now = expression.matches(*self.fields)
        if expression.starred[0] or expression.starred[1]:
            return list(self.times[now].tolist())
        runs = now & self.is_new
        for place in self.jumps:
            jumped_over = np.arange(self.before[place] + 1, self.shown[place])
            runs[place] |= expression.matches(*_fields(jumped_over)).any()
        return list(self.times[runs].tolist())


def _fields(shown: Any) -> tuple[Any, ...]:
    """Minute, hour, day of month, month, day of week (0: Sunday) of what clocks show."""
    days = shown // 1440
    dates = days.astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    day = (dates - months).astype(int) + 1
    return shown % 60, shown // 60 % 24, day, months.astype(int) % 12 + 1, (days + 4) % 7  # 1970 began on a Thursday


def drawn(chance: random.Random, hours: str = "any") -> Expression:
    """An expression by chance that can fire. ``hours``: ``night`` draws a time of day at which clocks are changed;
    ``seldom`` does so too, on a day of the month or a week in few months."""
    made = _drawn(chance, hours)
    while not made.can_fire():
        made = _drawn(chance, hours)
    return made


def _drawn(chance: random.Random, hours: str) -> Expression:
    if hours in ("night", "seldom"):
        fields = [_value(chance, 0, 59), _value(chance, 0, 4)]
    else:
        fields = [_field(chance, 0, 59), _field(chance, 0, 23)]
    if hours == "seldom":
        fields += [_value(chance, 1, 31), _field(chance, 1, 12, _MONTHS), ("*", set(range(7)))]
        if chance.random() < 0.1:
            fields[2:] = [("*", set(range(1, 32))), fields[3], _value(chance, 0, 6, _DAYS)]
        return _expression(fields)
    fields += [_mostly_star(chance, 1, 31, ()), _mostly_star(chance, 1, 12, _MONTHS), _mostly_star(chance, 0, 6, _DAYS)]
    return _expression(fields)


def _expression(fields: list[tuple[str, set[int]]]) -> Expression:
    texts = [text for text, _ in fields]
    starred = tuple(text.startswith("*") for text in texts)
    return Expression(" ".join(texts), tuple(frozenset(values) for _, values in fields), starred)


def _mostly_star(chance: random.Random, least: int, most: int, names: tuple[str, ...]) -> tuple[str, set[int]]:
    everything = ("*", set(range(least, most + 1)))
    return everything if chance.random() < 0.7 else _field(chance, least, most, names)


def _value(chance: random.Random, least: int, most: int, names: tuple[str, ...] = ()) -> tuple[str, set[int]]:
    value = chance.randint(least, most)
    name = names[value - least] if names and chance.random() < 0.5 else str(value)
    return chance.choice([name, name.lower()]), {value}


def _field(chance: random.Random, least: int, most: int, names: tuple[str, ...] = ()) -> tuple[str, set[int]]:
    def star() -> tuple[str, set[int]]:
        return "*", set(range(least, most + 1))

    def steps() -> tuple[str, set[int]]:
        step = chance.randint(2, max(2, most // 2))
        return f"*/{step}", {value for value in range(least, most + 1) if (value - least) % step == 0}

    def spread() -> tuple[str, set[int]]:
        first, last = sorted(chance.sample(range(least, most + 1), 2))
        step = chance.randint(1, 3)
        text = f"{first}-{last}" if step == 1 else f"{first}-{last}/{step}"
        return text, {value for value in range(first, last + 1) if (value - first) % step == 0}

    def listed() -> tuple[str, set[int]]:
        parts = [spread() if chance.random() < 0.3 else _value(chance, least, most, names) for _ in range(2)]
        return ",".join(text for text, _ in parts), parts[0][1] | parts[1][1]

    kinds: list[Callable[[], tuple[str, set[int]]]] = [star, steps, spread, listed]
    return chance.choice([*kinds, lambda: _value(chance, least, most, names)])()


def epoch(year: int, month: int = 1, day: int = 1) -> int:
    return int(datetime(year, month, day, tzinfo=UTC).timestamp())
