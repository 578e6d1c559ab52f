"""The history that the gate is replayed over, as CSV: a line for each run."""

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from orchestrator.analysis import csv_tables
from orchestrator.analysis.csv_tables import TableError
from orchestrator.analysis.gate.candidates import NIGHT_S, Session
from orchestrator.domain.words.untrusted import is_time, text_problem

COLUMNS = ("series", "at", "place", "subject", "rate")
GREATEST_RATE = 1e16  # as of other tools' files: nothing trains as fast in any unit
LONGEST_NAME = 300


def read_nights(text: str) -> dict[str, list[Session]]:
    """Return the sessions of each series, oldest first.

    ``at`` is a time by ISO 8601 (UTC where it says nothing else) or in seconds since the epoch, ``rate`` a number above
    0 in whichever unit. Runs of a series on one place and of one subject that begin within half a day are one session.

    Raises:
        TableError: a column is missing, a value is none, there is no row.
    """
    runs: dict[str, dict[tuple[str, str], list[tuple[float, float]]]] = {}
    for line, row in csv_tables.rows(text, COLUMNS):
        series = _name(row, "series", line)
        if not series:
            raise TableError("series is empty", line)
        where = (_name(row, "place", line), _name(row, "subject", line))
        runs.setdefault(series, {}).setdefault(where, []).append((_time(row["at"], line), _rate(row["rate"], line)))
    return {series: sorted(_sessions(theirs), key=lambda one: one.at) for series, theirs in runs.items()}


def _sessions(runs: Mapping[tuple[str, str], Sequence[tuple[float, float]]]) -> Iterator[Session]:
    for (place, subject), theirs in runs.items():
        night: list[tuple[float, float]] = []
        for run in sorted(theirs):
            if night and run[0] - night[0][0] >= NIGHT_S:
                yield _session(place, subject, night)
                night = []
            night.append(run)
        yield _session(place, subject, night)


def _session(place: str, subject: str, night: Sequence[tuple[float, float]]) -> Session:
    mean = math.fsum(math.log(rate) for _, rate in night) / len(night)
    return Session(night[0][0], place, subject, mean)


def _name(row: Mapping[str, str], column: str, line: int) -> str:
    name = row[column]
    problem = text_problem(name) or (f"more than {LONGEST_NAME} characters" if len(name) > LONGEST_NAME else None)
    if problem:
        raise TableError(f"{column} is no name: {problem}", line)
    return name


def _time(text: str, line: int) -> float:
    seconds = _of_iso(text) if len(text) == 8 else math.nan  # 20261123 is a day, and no second of 1970
    if math.isnan(seconds):
        seconds = _number(text)
    if math.isnan(seconds):
        seconds = _of_iso(text)
    if not is_time(seconds):
        raise TableError(
            f"at is {text[:40]!r}: it has to be a time, such as 2026-11-23T02:00:00Z, or seconds since 1970", line
        )
    return seconds


def _number(text: str) -> float:
    """NaN for what is none."""
    try:
        return math.nan if "_" in text else float(text)
    except ValueError:
        return math.nan


def _of_iso(text: str) -> float:
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return math.nan


def _rate(text: str, line: int) -> float:
    rate = _number(text)
    if not 0.0 < rate <= GREATEST_RATE:
        raise TableError(f"rate is {text[:40]!r}: it has to be a number above 0; leave out runs that have none", line)
    return rate
