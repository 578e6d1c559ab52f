"""What a prepared dataset has beside its arrays, in files of JSON: texts, and the text of each sub-word."""

import json
from typing import Any

from workers.trainer.base.failure import TrainerError


def write(path: str, found: Any) -> None:
    with open(path, "w", encoding="utf-8") as file:
        json.dump(found, file, ensure_ascii=False)


def read(path: str) -> Any:
    """Return what was written.

    Raises:
        TrainerError: ``setup_failed``, the file is missing or damaged; the message names it.
    """
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError) as error:
        raise TrainerError("setup_failed", "cannot read %s: %s" % (path, error))
