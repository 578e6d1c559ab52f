"""Time zones by their IANA names, from the database of this host, else from the package ``tzdata``."""

import zoneinfo
from functools import lru_cache
from zoneinfo import ZoneInfo


@lru_cache(maxsize=1)
def names() -> frozenset[str]:
    """All there are. Looked up once: new rules take a restart anyway."""
    return frozenset(zoneinfo.available_timezones())


def zone_of(name: str) -> ZoneInfo:
    """The zone of that very name.

    Raises:
        ValueError: there is none; the message has what was probably meant.
    """
    if name not in names():  # the name of a file is not looked for: it may be any
        from orchestrator.domain.words.spelling import did_you_mean

        meant = did_you_mean(name, names()) or ": they look like Europe/Berlin"
        raise ValueError(f"there is no time zone {name!r}{meant}")
    return ZoneInfo(name)
