"""Cron expressions: the instants at which they fire in a time zone, right across its changes of offset.

cronsim knows the rules, which are those of Vixie cron as Debian has it (crontab(5), cron(8)); docs/use/schedules.md
tells them. Here are the nicknames, and what of cronsim's language is refused: ``L`` and ``#``, which other crons do not
know, and steps that some of them understand otherwise (``5/15``) or that have no effect (``*/60``).

Times are seconds since the epoch. A zone is a ``tzinfo`` that honours ``fold`` (PEP 495), as ``zoneinfo.ZoneInfo``.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from heapq import merge
from itertools import tee

from cronsim import CronSim, CronSimError

NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
# Name, largest value, and what may stand in it besides * and ranges.
_FIELDS = (
    ("minute", 59, "0 to 59"),
    ("hour", 23, "0 to 23"),
    ("day of month", 31, "1 to 31"),
    ("month", 12, "1 to 12 or JAN to DEC"),
    ("day of week", 7, "0 to 7 or SUN to SAT"),
)
_VALUE = "([0-9]{1,3}|[A-Z]{3})"
_TERM = re.compile(rf"{_VALUE}|(\*|{_VALUE}-{_VALUE})(/(?P<step>[0-9]{{1,3}}))?")
_LONGEST_REPEAT = timedelta(hours=3)  # clocks are put back by two hours at most, at Troll in Antarctica
_END = datetime(9990, 1, 1, tzinfo=UTC).timestamp()  # soon after it calendars end
_ANY = datetime(2000, 1, 1)  # cronsim wants some time to read an expression


@dataclass(frozen=True)
class Cron:
    """A cron expression. ``text`` as it was given, ``expression`` as cronsim reads it."""

    text: str
    expression: str

    def times(self, zone: tzinfo, after: float) -> Iterator[float]:
        """The instants after ``after`` at which it fires, in order, without end (to the year 9990)."""
        last = after
        with suppress(OverflowError, ValueError):  # the calendar has ended
            for time in self._from(datetime.fromtimestamp(after, UTC).astimezone(zone)):
                if time >= _END:
                    return
                if time > last:  # begun within a repeated hour, there are also some of its first time
                    last = time
                    yield time

    def _from(self, now: datetime) -> Iterator[float]:
        """The instants after ``now``, and perhaps some of before."""
        zone = now.tzinfo
        if not any(field.startswith("*") for field in self.expression.split()[:2]):
            return map(datetime.timestamp, CronSim(self.expression, now))
        # What follows the clock on the wall goes wrongly through a change of half an hour in cronsim 2.8.
        walls = tee(CronSim(self.expression, now.replace(tzinfo=None) - _LONGEST_REPEAT))
        return merge(*(_shown(zone, theirs, fold) for fold, theirs in enumerate(walls)))


def _shown(zone: tzinfo | None, walls: Iterable[datetime], fold: int) -> Iterator[float]:
    """When a clock shows the times ``walls``: for the first time (``fold`` 0), or the last."""
    for wall in walls:
        time = wall.replace(tzinfo=zone, fold=fold).astimezone(UTC)
        if time.astimezone(zone).replace(tzinfo=None) == wall:
            yield time.timestamp()


def parse_cron(text: str) -> Cron:
    """The expression that ``text`` is.

    Raises:
        ValueError: it is none, or it never fires; the message names the field.
    """
    words = text.upper().split()
    if len(words) == 1 and words[0].startswith("@"):
        if words[0].lower() not in NICKNAMES:
            raise ValueError(f"{text.strip()!r} is none of {', '.join(NICKNAMES)}")
        words = NICKNAMES[words[0].lower()].split()
    if len(words) != len(_FIELDS):
        names = ", ".join(name for name, _, _ in _FIELDS)
        raise ValueError(f"a cron expression has five fields ({names}), such as 0 2 * * *; this has {len(words)}")
    words[4] = re.sub(r"(?<!SUN)(?<!\b0)-(SUN|0)\b", "-7", words[4])  # FRI-SUN ends after it begins
    for place, word in enumerate(words):
        _check(word, place)
    expression = " ".join(words)
    try:
        CronSim(expression, _ANY)
    except CronSimError:  # each field is right by itself
        raise ValueError(f"{text!r} never fires: no month of it has such a day") from None
    return Cron(text, expression)


def _check(word: str, place: int) -> None:
    """Raises ValueError where ``word`` is nothing for the field at ``place``."""
    name, most, values = _FIELDS[place]
    for term in word.split(","):
        found = _TERM.fullmatch(term)
        if found and found["step"] and not 0 < int(found["step"]) <= most:
            raise ValueError(f"{name}: {term!r} has no step from 1 to {most} behind the /")
        try:
            if not found:
                raise CronSimError
            CronSim(" ".join(["*"] * place + [term] + ["*"] * (4 - place)), _ANY)
        except CronSimError:
            raise ValueError(
                f"{name}: {term!r} is none of {values}, * or a range upward, or such a range or * with a step "
                "(*/2, 1-5/2)"
            ) from None
