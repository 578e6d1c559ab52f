"""What a framework writes on standard error, past Python."""

import os
import tempfile


def on_standard_error(call):
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
