"""What translations and answers are judged by: texts of a prepared dataset, ``texts/<split>.json``."""

import os
from typing import Any

from suites.datasets import text_files


def write(root: str, split: str, found: Any) -> None:
    os.makedirs(os.path.join(root, "texts"), exist_ok=True)
    text_files.write(path_of(root, split), found)


def read(root: str, split: str) -> Any:
    """Return what was written.

    Raises:
        TrainerError: as ``text_files.read``.
    """
    return text_files.read(path_of(root, split))


def path_of(root: str, split: str) -> str:
    return os.path.join(root, "texts", split + ".json")
