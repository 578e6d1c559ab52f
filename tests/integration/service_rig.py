"""A real service as a process of its own, with agents as child processes, and the real ``tbd`` command."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.service import Service

ROOT = Path(__file__).resolve().parents[2]
COMMAND_S = 120.0


def environment(folder: Path, **more: str) -> dict[str, str]:
    """The environment of a service of one's own in ``folder``, without Ray, and of commands in a pipe of no width (a
    runner of tests may set COLUMNS, which folds tables)."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TBD_") and name != "COLUMNS"}
    ours = {
        "TBD_DATA_DIR": str(folder / "data"),
        "TBD_LOCK_DIR": str(folder / "locks"),  # not those of other services on this machine
        "TBD_CLUSTER": "local",
        "PYTHONPATH": str(ROOT),
        "NO_COLOR": "1",
    }
    return kept | ours | more


@contextmanager
def service(folder: Path) -> Iterator[str]:
    """The URL of a service that runs as long as the block, and then stops in order."""
    running = Service(folder / "data", **environment(folder)).start()
    try:
        yield running.url
    finally:
        status = running.stop()
    assert status == 0


def _as_from_a_terminal() -> None:
    """Ctrl-C reaches a command that a person starts. One that is started in the background, as all tests may be,
    inherits that it is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Tbd:
    """The command, talking to the service at ``url`` (or to none)."""

    def __init__(self, folder: Path, url: str | None) -> None:
        self.folder = folder
        self.environment = environment(folder, **({"TBD_SERVER": url} if url else {}))

    def start(self, *words: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "orchestrator.cli.main", *words],
            env=self.environment,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=_as_from_a_terminal,
        )

    def __call__(self, *words: str, code: int = 0) -> "subprocess.CompletedProcess[str]":
        """Run it to its end, which must be ``code``."""
        process = self.start(*words)
        try:
            out, err = process.communicate(timeout=COMMAND_S)
        finally:
            process.kill()
        assert process.returncode == code, f"{words}: {process.returncode}\n{out}\n{err}"
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def json(self, *words: str, code: int = 0) -> Any:
        """What it prints with --json."""
        return json.loads(self(*words, "--json", code=code).stdout)
