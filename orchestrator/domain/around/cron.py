"""Cron expressions: the instants at which they fire in a time zone, right across its changes of offset.

Five fields (minute, hour, day of month, month, day of week), each a list of ``*``, values and ranges, with steps and
names; or a nickname such as ``@daily``. The rules are those of Vixie cron as Debian and cronie have it (crontab(5),
cron(8)): where day of month and day of week are both restricted, a day matches that is either; and

* an expression whose minute or hour begins with ``*`` follows the clock on the wall: at a minute that comes twice it
  fires twice, at one that does not come it does not;
* any other one means a time of day: one that comes twice fires at the first, one that does not exist fires when the
  clock has jumped over it. Several that fall on one instant are one.

Times are seconds since the epoch. A zone is a ``tzinfo`` that honours ``fold`` (PEP 495), as ``zoneinfo.ZoneInfo``.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache

NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_YEAR = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_MONTHS = {name: number for number, name in enumerate(_YEAR, start=1)}
_DAYS = {name: number for number, name in enumerate(("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"))}

_TERM = re.compile(r"(?P<any>\*)|(?P<first>[A-Za-z]+|\d+)(?:-(?P<last>[A-Za-z]+|\d+))?")
_EPOCH = date(1970, 1, 1).toordinal()
_DAY_S = 86400
_LAST_DAY = date(9990, 1, 1).toordinal()  # soon after it calendars end
_CYCLE_DAYS = 146_097  # after 400 years the days of the week fall on the same dates again


@dataclass(frozen=True)
class _Field:
    """What may stand in a field: its name, its smallest and largest value, and names for values."""

    name: str
    least: int
    most: int
    names: dict[str, int]

    def parse(self, text: str) -> frozenset[int]:
        """The values that ``text`` names. Raises ValueError."""
        return frozenset(value for term in text.split(",") for value in self._term(term))

    def _term(self, text: str) -> range:
        body, slash, step_text = text.partition("/")
        found = _TERM.fullmatch(body)
        if not found:
            raise ValueError(f"{self.name}: {text!r} is none of *, a value, a range such as 1-5, or these with a step")
        if slash and not (step_text.isascii() and step_text.isdigit() and 0 < int(step_text) <= self.most):
            raise ValueError(f"{self.name}: {text!r} has no step from 1 to {self.most} behind the /")
        step = int(step_text) if slash else 1
        if found["any"]:
            return range(self.least, self.most + 1, step)
        first = self._value(found["first"])
        if found["last"] is None:
            if slash:  # some crons take this for a range to the end, others refuse it
                raise ValueError(f"{self.name}: {text!r} steps from where to where? Write {body}-{self.most}/{step}")
            return range(first, first + 1)
        last = self._value(found["last"])
        if self.names is _DAYS and last == 0 < first:
            last = 7  # FRI-SUN
        if last < first:
            raise ValueError(f"{self.name}: the range {body!r} ends before it begins")
        return range(first, last + 1, step)

    def _value(self, text: str) -> int:
        value = int(text) if text.isascii() and text.isdigit() and len(text) < 4 else self.names.get(text.upper())
        if value is None or not self.least <= value <= self.most:
            names = f" or {', '.join(self.names)}" if self.names else ""
            raise ValueError(f"{self.name}: {text!r} is none of {self.least} to {self.most}{names}")
        return value


_FIELDS = (
    _Field("minute", 0, 59, {}),
    _Field("hour", 0, 23, {}),
    _Field("day of month", 1, 31, {}),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of week", 0, 7, _DAYS),
)


@dataclass(frozen=True)
class Cron:
    """A cron expression. ``minutes``: those of a day that match, 0 to 1439, in order; ``weekdays``: 0 is Sunday.
    ``is_wall``: it follows the clock on the wall; else it means times of day."""

    text: str
    minutes: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool
    is_wall: bool

    def matches(self, day: date) -> bool:
        """Whether it fires on ``day`` at all."""
        if day.month not in self.months:
            return False
        by_date, by_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return by_date or by_week if self.either_day else by_date and by_week

    def times(self, zone: tzinfo, after: float) -> Iterator[float]:
        """The instants after ``after`` at which it fires, in order, without end (to the year 9990)."""
        last = after
        # A zone is less than a day from UTC, and a time that does not exist may fire on a later day.
        for day in range(max(1, int(after // _DAY_S) + _EPOCH - 2), _LAST_DAY):
            if self.matches(date.fromordinal(day)):
                for time in self._of_day(zone, day):
                    if time > last:
                        yield time
                        last = time

    def _of_day(self, zone: tzinfo, day: int) -> Iterator[float]:
        """The instants that belong to a local day, in order."""
        offset = _offset_of(zone, day)
        if offset is not None:
            midnight = (day - _EPOCH) * _DAY_S - offset
            return (midnight + minute * 60.0 for minute in self.minutes)
        walls = (datetime.fromordinal(day) + timedelta(minutes=minute) for minute in self.minutes)
        found = _wall_times if self.is_wall else _time_of_day
        return iter(sorted({time for wall in walls for time in found(zone, wall)}))


def parse_cron(text: str) -> Cron:
    """The expression that ``text`` is.

    Raises:
        ValueError: it is none, or it never fires; the message names the field.
    """
    words = text.split()
    if len(words) == 1 and words[0].startswith("@"):
        if words[0].lower() not in NICKNAMES:
            raise ValueError(f"{words[0]!r} is none of {', '.join(NICKNAMES)}")
        words = NICKNAMES[words[0].lower()].split()
    if len(words) != len(_FIELDS):
        names = ", ".join(field.name for field in _FIELDS)
        raise ValueError(f"a cron expression has five fields ({names}), such as 0 2 * * *; this has {len(words)}")
    minutes, hours, days, months, weekdays = (field.parse(word) for field, word in zip(_FIELDS, words, strict=True))
    cron = Cron(
        text=text,
        minutes=tuple(sorted(hour * 60 + minute for hour in hours for minute in minutes)),
        days=days,
        months=months,
        weekdays=frozenset(day % 7 for day in weekdays),
        either_day=not words[2].startswith("*") and not words[4].startswith("*"),
        is_wall=words[0].startswith("*") or words[1].startswith("*"),
    )
    first = date(2000, 1, 1).toordinal()
    if not any(cron.matches(date.fromordinal(day)) for day in range(first, first + _CYCLE_DAYS)):
        raise ValueError(f"{text!r} never fires: no month of it has such a day")
    return cron


@lru_cache(maxsize=65536)
def _offset_of(zone: tzinfo, day: int) -> int | None:
    """Seconds east of UTC on a local day (its ordinal); None where they change on it, or are no whole number."""
    start = datetime.fromordinal(day)
    walls = [start + timedelta(hours=hour) for hour in range(25)]
    offsets = {wall.replace(tzinfo=zone, fold=fold).utcoffset() for wall in walls for fold in (0, 1)}
    if len(offsets) > 1:
        return None
    (offset,) = offsets
    assert offset is not None
    seconds = offset.total_seconds()
    return int(seconds) if seconds.is_integer() else None


def _wall_times(zone: tzinfo, wall: datetime) -> list[float]:
    """The instants at which the clock on the wall shows ``wall``: none, one or two."""
    found = (wall.replace(tzinfo=zone, fold=fold).timestamp() for fold in (0, 1))
    return sorted({time for time in found if _shown(zone, time) == wall})


def _time_of_day(zone: tzinfo, wall: datetime) -> list[float]:
    """The one instant that ``wall`` means as a time of day."""
    found = _wall_times(zone, wall)
    return found[:1] or [_jump_over(zone, wall)]


def _jump_over(zone: tzinfo, wall: datetime) -> float:
    """When the clock jumps over ``wall``, which it never shows: the first instant of the offset after."""
    # PEP 495: with fold=1 a time in the gap is read by the offset after, and lies before the jump; fold=0 after it.
    before = int(wall.replace(tzinfo=zone, fold=1).timestamp())
    jumped = int(wall.replace(tzinfo=zone, fold=0).timestamp())
    while jumped - before > 1:
        middle = (before + jumped) // 2
        if _shown(zone, middle) < wall:
            before = middle
        else:
            jumped = middle
    return float(jumped)


def _shown(zone: tzinfo, time: float) -> datetime:
    """What the clock on the wall shows."""
    return datetime.fromtimestamp(time, UTC).astimezone(zone).replace(tzinfo=None, fold=0)
