"""Makes the dataset: ``python -m suites.datasets.catch.prepare --root DIR``."""

import sys
from typing import Dict

from suites.datasets import games, making

VERSION = 1


def write_all(folder: str) -> Dict[str, str]:
    """Write every file below ``folder``; return the versions of what they were made with, which is nothing."""
    games.write(folder, "catch")
    return {}


if __name__ == "__main__":
    sys.exit(making.main(VERSION, write_all))
