"""What translations and answers are judged by: texts of a prepared dataset, ``texts/<split>.json``."""

import json
import os
from typing import Any

from workers.trainer.failure import TrainerError


def write(root: str, split: str, found: Any) -> None:
    os.makedirs(os.path.join(root, "texts"), exist_ok=True)
    with open(path_of(root, split), "w", encoding="utf-8") as file:
        json.dump(found, file, ensure_ascii=False)


def read(root: str, split: str) -> Any:
    """Return what was written.

    Raises:
        TrainerError: ``setup_failed``, the file is missing or damaged; the message names it.
    """
    path = path_of(root, split)
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError) as error:
        raise TrainerError("setup_failed", "cannot read %s: %s" % (path, error))


def path_of(root: str, split: str) -> str:
    return os.path.join(root, "texts", split + ".json")
