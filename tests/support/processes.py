"""Finding the processes of attempts, to show that none is left."""

import os
from pathlib import Path

from workers.trainer.protocol import TOKEN_VARIABLE


def command_lines() -> list[str]:
    """Those of all processes, as anybody on this machine sees them."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return found


def of_attempts(needle: str = "") -> list[int]:
    """Ids of living processes that carry an attempt's token and ``needle`` in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environment = (entry / "environ").read_bytes()
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except (OSError, IndexError):
            continue
        if f"{TOKEN_VARIABLE}=".encode() in environment and needle.encode() in environment and state != "Z":
            found.append(int(entry.name))
    return found
