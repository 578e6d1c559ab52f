"""Makes the dataset: ``python -m suites.datasets.pong.prepare --root DIR``."""

import sys
from typing import Dict

from suites.datasets import making
from suites.datasets.games import atari

VERSION = 1


def write_all(folder: str) -> Dict[str, str]:
    """Write every file below ``folder``; return the version of the emulator."""
    return {"ale-py": atari.write(folder)}


if __name__ == "__main__":
    sys.exit(making.main(VERSION, write_all))
