"""The CPU devices of this machine, for commands that compute here without a server, and who holds them.

A training holds the lock of each of its devices (``workers.trainer.host``). To look at a lock is not to try it: a
training that tries it at the same moment would fail.
"""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from orchestrator.cli.exits import FAILED, USAGE, CommandError

PAUSE_S = 1.0


class CpuDevice(NamedTuple):
    """A CPU device by its id, with its logical cores."""

    id: str
    cores: Sequence[int]


def offered() -> list[CpuDevice]:
    """The CPU devices that a service would offer here; one of all cores where it would offer none.

    Raises:
        CommandError: a setting is wrong.
    """
    from workers.node.inventory import Inventory, ranges, usable_cores
    from workers.node.telemetry.nvml import Nvml

    nvml = Nvml()
    try:
        devices = Inventory(None, Path("/"), nvml).read()["devices"]
    except ValueError as error:
        raise CommandError(str(error), USAGE) from None
    finally:
        nvml.close()
    found = [CpuDevice(device["id"], list(device["cores"])) for device in devices if device["kind"] == "cpu"]
    cores = usable_cores()
    return found or [CpuDevice(f"cpu:{ranges(cores)}", cores)]


def hindrance(devices: Sequence[CpuDevice]) -> str | None:
    """Which of ``devices`` is held, and by whom; None where none is. Only looks."""
    held = _locked_inodes(Path("/proc/locks"))
    for device in devices:
        path = _lock(device)
        if path.exists() and path.stat().st_ino in held:
            return f"{_holder(path)} holds {device.id}"
    return None


def refuse_held(devices: Sequence[CpuDevice]) -> None:
    """Say who holds one of ``devices``, where somebody does.

    Raises:
        CommandError: one is held.
    """
    held = hindrance(devices)
    if held:
        raise CommandError(f"{held}: try again when it is over (tbd ls)", FAILED)


def give_way(devices: Sequence[CpuDevice], tell: Callable[[str], None], pause: Callable[[float], None]) -> None:
    """Wait until nobody holds any of ``devices``; ``tell`` hears once for whom. Nothing is held meanwhile or after: a
    training that begins at any time finds its devices free."""
    told = None
    while held := hindrance(devices):
        if held != told:
            tell(f"waiting: {held}")
            told = held
        pause(PAUSE_S)


def _lock(device: CpuDevice) -> Path:
    from workers.trainer.host import lock_path

    return Path(lock_path(_lock_folder(), device.id))


def _lock_folder() -> str:
    from workers.node.prepare import SetupError, lock_folder

    try:
        return str(lock_folder())
    except (SetupError, OSError) as error:
        raise CommandError(f"the locks of the devices cannot be used: {error}", FAILED) from None


def _holder(path: Path) -> str:
    """Who holds the lock: the run and its process, or what is known of them."""
    with suppress(OSError, ValueError):
        pid = int(path.read_text())
        with suppress(OSError, ValueError, KeyError):
            words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
            job = json.loads(Path(words[words.index("--job") + 1]).read_text())
            return f"run {job['run_id']} (process {pid})"
        return f"process {pid}"
    return "a process"


def _locked_inodes(locks: Path) -> set[int]:
    """The inodes of all files that somebody holds a lock on (proc(5): the sixth word is MAJOR:MINOR:INODE)."""
    try:
        lines = [line.split() for line in locks.read_text().splitlines()]
    except OSError:
        return set()
    return {int(words[5].rpartition(":")[2]) for words in lines if len(words) > 5 and words[1] == "FLOCK"}
