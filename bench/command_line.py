"""``tbd ls --json`` with a server / ``python -c pass``, and without one / importing what it needs: whole processes, by
wall time."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.ratio import Ratio, in_turn, ratio
from orchestrator.db.upgrade import admin
from tests.support.service import Service

TBD = [str(Path(sys.executable).parent / "tbd"), "ls", "--json"]


def seconds(command: list[str], environment: dict[str, str]) -> float:
    began = time.monotonic()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.monotonic() - began


def measure(service: Service, pairs: int) -> list[Ratio]:
    alone = {name: value for name, value in os.environ.items() if name not in ("TBD_SERVER", "TBD_DATABASE_URL")}
    with tempfile.TemporaryDirectory() as folder:
        admin.upgrade(f"sqlite:///{folder}/tbd.sqlite3")
        return [
            _of(alone | {"TBD_SERVER": service.url}, "pass", "<= 4", pairs),
            _of(alone | {"TBD_DATA_DIR": folder}, "import fastapi, sqlalchemy", "<= 2", pairs),
        ]


def _of(environment: dict[str, str], code: str, wanted: str, pairs: int) -> Ratio:
    bare = [sys.executable, "-c", code]
    seconds(TBD, environment)
    a, b = in_turn(pairs, lambda: seconds(TBD, environment), lambda: seconds(bare, environment))
    server = "with" if "TBD_SERVER" in environment else "without"
    return ratio(f"tbd ls --json {server} a server / python -c '{code}'", wanted, a, b)
