"""Sizes, shares and times as a person writes them: 65536, 64KiB; 2%, 0.02; 90, 20m, 2h."""

import argparse
import re

_UNITS = {"": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def size_bytes(text: str) -> int:
    """Return the bytes that ``text`` names; for argparse.

    Raises:
        argparse.ArgumentTypeError: it is no size.
    """
    match = re.fullmatch(r"([0-9]{1,15})\s*([KMG]iB|B|)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no size: they look like 65536, 64KiB or 16MiB")
    return int(match[1]) * _UNITS[match[2]]


def share(text: str) -> float:
    """Return what ``text`` names, above 0 and below 1; for argparse.

    Raises:
        argparse.ArgumentTypeError: it is no share.
    """
    match = re.fullmatch(r"([0-9]{0,9}(?:\.[0-9]{1,9})?)(%?)", text)
    value = float(match[1]) / (100.0 if match[2] else 1.0) if match and match[1] else 0.0
    if not 0.0 < value < 1.0:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no share above 0 and below 1: they look like 2% or 0.02")
    return value


def seconds(text: str) -> float:
    """Return the seconds that ``text`` names, above 0; for argparse.

    Raises:
        argparse.ArgumentTypeError: it is no time.
    """
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smh]?)", text)
    value = float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]] if match else 0.0
    if not value > 0.0:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no time above 0: they look like 90, 20m or 2h")
    return value
