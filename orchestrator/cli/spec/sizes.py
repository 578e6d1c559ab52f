"""Sizes as a person writes them: 65536, 64KiB, 16MiB."""

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
