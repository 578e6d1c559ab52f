"""Stands for systemd on a host of the tests: keeps the service of a unit file alive as its [Service] says.

    python -m tests.cluster.unit_keeper UNIT ETC PROGRAMS

``ETC`` stands for /etc/tbd, where the unit's environment files lie, ``PROGRAMS`` for /opt/tbd/bin. It knows ExecStart,
EnvironmentFile, Restart=always, RestartSec, TimeoutStopSec and KillMode=control-group: when the first process has
ended, all that it has left behind are ended. Told to end (SIGTERM) it does what ``systemctl stop`` does. It does not
know users, limits and order.
"""

import contextlib
import ctypes
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

_SUBREAPER = 36  # linux/prctl.h: orphans below this process become its children


class Told(Exception):  # noqa: N818
    """SIGTERM has come."""


def settings(unit: str) -> Iterator[tuple[str, str]]:
    """(name, value) of each line of the section [Service]."""
    section = ""
    for line in unit.splitlines():
        line = line.strip()
        if line.startswith("["):
            section = line
        elif section == "[Service]" and line and line[0] not in "#;":
            name, _, value = line.partition("=")
            yield name, value


def environment_of(text: str) -> dict[str, str]:
    """What an environment file says. Double quotes around a value are not part of it."""
    lines = [line.strip().partition("=") for line in text.splitlines()]
    return {name: value.strip('"') for name, _, value in lines if name and not name.startswith(("#", ";"))}


def words(command: str, environment: Mapping[str, str]) -> list[str]:
    """The words of ExecStart: ``${NAME}`` stays part of its word, ``$NAME`` alone becomes words of its own."""
    found = []
    for word in shlex.split(command):
        if word.startswith("$") and not word.startswith("${"):
            found += environment.get(word[1:], "").split()
            continue
        for name, text in environment.items():
            word = word.replace(f"${{{name}}}", text)
        found.append(word)
    return found


def keep(unit: str, etc: str, programs: str) -> None:
    """Run the service again and again, until this process is told to end."""
    given = dict(settings(unit))
    assert (given["Restart"], given["KillMode"]) == ("always", "control-group")
    environment = dict(os.environ)
    for name, value in settings(unit):
        if name == "EnvironmentFile":
            path = Path(value.removeprefix("-").replace("/etc/tbd", etc))
            if path.exists() or not value.startswith("-"):
                environment |= environment_of(path.read_text())
    command = words(given["ExecStart"].replace("/opt/tbd/bin", programs), environment)
    while True:
        print("unit: starts", *command, flush=True)
        process = subprocess.Popen(command, env=environment)
        try:
            print("unit: ended with", process.wait(), flush=True)
        finally:
            end_group(float(given["TimeoutStopSec"]))
        time.sleep(float(given["RestartSec"]))


def end_group(patience_s: float) -> None:
    """End all descendants: in order first, each told once, then at once."""
    for number, limit_s in ((signal.SIGTERM, patience_s), (signal.SIGKILL, 5.0)):
        deadline, told = time.monotonic() + limit_s, set[int]()
        while (left := children()) and time.monotonic() < deadline:
            for pid in left:
                if pid not in told:
                    told.add(pid)
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, number)
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            time.sleep(0.1)


def children() -> list[int]:
    tasks = Path("/proc/self/task").iterdir()
    return [int(pid) for task in tasks for pid in (task / "children").read_text().split()]


def _be_told(*_: object) -> None:
    raise Told


def main() -> None:
    unit, etc, programs = sys.argv[1:]
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, _be_told)
    with contextlib.suppress(Told):
        keep(Path(unit).read_text(), etc, programs)


if __name__ == "__main__":
    main()
