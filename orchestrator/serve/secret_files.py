"""Files that hold a secret: who else may read one has it."""

import os
import stat
from pathlib import Path

from orchestrator.domain.words.errors import SettingsError

OWNER_ONLY = stat.S_IRWXG | stat.S_IRWXO
NOT_EVERYBODY = stat.S_IRWXO  # keys of TLS belong to root and a group, such as ssl-cert on Debian


def read_secret(path: Path, name: str, closed_to: int = OWNER_ONLY) -> str:
    """The text of the file at ``path``, which the setting ``name`` names.

    Args:
        closed_to: the bits of its mode that must not be set.

    Raises:
        SettingsError: it is missing, cannot be read, or others can read it too; the text says what to do.
    """
    try:
        with open(path, encoding="utf-8") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if mode & closed_to:
                keep = mode & ~closed_to
                raise SettingsError(
                    f"{name}: {path} may be used by others than its owner (mode {mode:04o}): chmod {keep:o} {path}"
                )
            return file.read()
    except FileNotFoundError:
        raise SettingsError(f"{name}: there is no file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{name}: {path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
