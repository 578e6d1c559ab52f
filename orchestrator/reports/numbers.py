"""Numbers as a person reads them: GiB, %, ms. Everywhere else quantities are in SI base units."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

NOTHING = "–"  # noqa: RUF001 - a dash on purpose: no value

Quantity = Mapping[str, Any]  # as REST answers it: value, unit, ci_low, ci_high, n, ...


def plain(value: float | str | None, digits: int = 4) -> str:
    """A number with ``digits`` significant digits, without an exponent where that can be read."""
    if value is None:
        return NOTHING
    if isinstance(value, str) or not math.isfinite(value):
        return str(value)
    if value == 0:
        return "0"
    magnitude = math.floor(math.log10(abs(value)))
    if not -4 <= magnitude < 9:
        return f"{value:.{digits - 1}e}"
    return f"{value:.{max(0, digits - 1 - magnitude)}f}"


def with_half_width(quantity: Quantity | None) -> str:
    """``12.34 ± 0.05``: the half-width is given two significant digits and the value as many places."""
    if not quantity or quantity.get("value") is None:
        return NOTHING
    half = half_width(quantity)
    if half is None or half == 0:
        return plain(quantity["value"])
    places = max(0, 1 - math.floor(math.log10(half)))
    return f"{quantity['value']:.{places}f} ± {half:.{places}f}"


def half_width(quantity: Quantity | None) -> float | None:
    """Half of the interval of confidence, or None where there is none."""
    if not quantity or quantity.get("ci_low") is None or quantity.get("ci_high") is None:
        return None
    low, high = quantity["ci_low"], quantity["ci_high"]
    if isinstance(low, str) or isinstance(high, str):
        return None
    return float(high - low) / 2


def percent(ratio: float | None, digits: int = 3) -> str:
    return NOTHING if ratio is None else f"{plain(100 * ratio, digits)} %"


def memory(amount_bytes: float | None) -> str:
    """Bytes in the largest fitting unit of 1024."""
    if amount_bytes is None:
        return NOTHING
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if amount_bytes >= size:
            return f"{plain(amount_bytes / size, 3)} {unit}"
    return f"{amount_bytes:.0f} B"


def duration(seconds: float | None) -> str:
    """A duration of a step, or of a run."""
    if seconds is None:
        return NOTHING
    if seconds < 1e-3:
        return f"{plain(seconds * 1e6, 3)} µs"
    if seconds < 1:
        return f"{plain(seconds * 1e3, 3)} ms"
    if seconds < 120:
        return f"{plain(seconds, 3)} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def seconds_of(time: str) -> float:
    """Seconds since the epoch of a time as REST writes it."""
    return datetime.fromisoformat(time).timestamp()


def short_time(time: str | None) -> str:
    """A time as REST writes it, to the second, in UTC."""
    if time is None:
        return NOTHING
    return datetime.fromisoformat(time).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def zoned(time: str, timezone: str) -> datetime:
    """A time as REST writes it, as the clocks of a zone show it; as it is where this host does not know the zone."""
    found = datetime.fromisoformat(time)
    try:
        return found.astimezone(ZoneInfo(timezone))
    except (ZoneInfoNotFoundError, ValueError):  # this host knows fewer zones than the server
        return found


def value_of(quantity: Quantity | None) -> float | None:
    """The value of a quantity that may not be there."""
    return None if not quantity else quantity.get("value")
