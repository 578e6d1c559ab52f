"""What a framework writes on standard error, past Python."""

import os
import tempfile
from typing import Any, Callable


def on_standard_error(call: Callable[[], Any]) -> str:
    """Return what ``call`` writes there meanwhile, as text."""
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        try:
            os.dup2(file.fileno(), 2)
            call()
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        file.seek(0)
        return file.read().decode("utf-8", "replace")
