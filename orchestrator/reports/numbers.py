"""Numbers as a person reads them: GiB, %, ms. Everywhere else quantities are in SI base units."""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

NOTHING = "–"  # noqa: RUF001 - a dash on purpose: no value

Quantity = Mapping[str, Any]  # as REST answers it: value, unit, ci_low, ci_high, n, ...


def comparable(value: Any) -> tuple[float, str]:
    """A key to sort by: numbers by size, before texts; non-finite numbers travel as texts."""
    return (float(value), "") if isinstance(value, int | float) else (math.inf, str(value))


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


def with_interval(quantity: Quantity | None, digits: int = 4) -> str:
    """A value with its interval of confidence: ``12.34 ± 0.05`` where both sides of it round to the same, else
    ``12.3 (9.8 to 15.4)``. A side is given two significant digits, the value as many places; one without an interval
    has ``digits`` significant ones."""
    if not quantity or quantity.get("value") is None:
        return NOTHING
    value = quantity["value"]
    ends = ends_of(quantity)
    if isinstance(value, str) or ends is None or ends[0] == ends[1]:
        return plain(value, digits)
    below, above = value - ends[0], ends[1] - value
    places = max(0, 1 - _magnitude(max(below, above)))
    if f"{below:.{places}f}" == f"{above:.{places}f}":
        return f"{value:.{places}f} ± {above:.{places}f}"
    narrow = min(below, above)
    digits = max(3, _magnitude(value) - _magnitude(narrow) + 2) if narrow > 0 and value else 3
    return f"{plain(value, digits)} ({plain(ends[0], digits)} to {plain(ends[1], digits)})"


def ends_of(quantity: Quantity | None) -> tuple[float, float] | None:
    """The ends of the interval of confidence, or None where there is none."""
    if not quantity or quantity.get("ci_low") is None or quantity.get("ci_high") is None:
        return None
    low, high = quantity["ci_low"], quantity["ci_high"]
    return None if isinstance(low, str) or isinstance(high, str) else (low, high)


def _magnitude(value: float) -> int:
    """The power of ten of the first digit."""
    return math.floor(math.log10(abs(value)))


def percent(ratio: float | str | None, digits: int = 3) -> str:
    """A ratio in hundredths. What is not finite travels as a text, here and below."""
    if ratio is None or isinstance(ratio, str):
        return ratio or NOTHING
    return f"{plain(100 * ratio, digits)} %"


def memory(amount_bytes: float | str | None) -> str:
    """Bytes in the largest fitting unit of 1024."""
    if amount_bytes is None or isinstance(amount_bytes, str):
        return amount_bytes or NOTHING
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if amount_bytes >= size:
            return f"{plain(amount_bytes / size, 3)} {unit}"
    return f"{amount_bytes:.0f} B"


def duration(seconds: float | str | None) -> str:
    """A duration of a step, or of a run."""
    if seconds is None or isinstance(seconds, str):
        return seconds or NOTHING
    if seconds < 1e-3:
        return f"{plain(seconds * 1e6, 3)} µs"
    if seconds < 1:
        return f"{plain(seconds * 1e3, 3)} ms"
    if seconds < 120:
        return f"{plain(seconds, 3)} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def quantity_text(metric: str, quantity: Quantity) -> str:
    """A quantity with its unit, as a person reads it."""
    value = quantity["value"]
    if value is None or isinstance(value, str):
        return NOTHING if value is None else value
    if metric.endswith("_ratio"):
        return percent(value)
    if quantity["unit"] == "B":
        return memory(value)
    if quantity["unit"] == "s":
        return duration(value)
    unit = "" if quantity["unit"] == "1" else f" {quantity['unit']}"
    return (f"{value:.0f}" if value == round(value, 0) and abs(value) < 1e9 else plain(value)) + unit


def seconds_of(time: str) -> float:
    """Seconds since the epoch of a time as REST writes it."""
    return datetime.fromisoformat(time).timestamp()


def short_digests(text: str) -> str:
    """Of commits and digests so much as tells them apart."""
    return re.sub("[0-9a-f]{40,64}", lambda found: found[0][:12], text)


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
