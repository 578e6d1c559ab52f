"""What lies in folders that other processes write to and remove."""

import os
from pathlib import Path


def files_below(folder: Path, suffix: str) -> list[Path]:
    """Return the files at any depth whose name ends so. A folder that goes away meanwhile has none."""
    return [Path(place, name) for place, _, names in os.walk(folder) for name in names if name.endswith(suffix)]
