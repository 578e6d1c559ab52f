"""``tbd ls --json`` / ``python -c pass``: whole processes, by wall time."""

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.benchmarks.ratio import Ratio, in_turn, ratio
from tests.support.service import Service


def seconds(command: list[str], environment: dict[str, str]) -> float:
    began = time.monotonic()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - began


def measure(service: Service, pairs: int) -> Ratio:
    environment = {**os.environ, "TBD_SERVER": service.url}
    tbd = [str(Path(sys.executable).parent / "tbd"), "ls", "--json"]
    bare = [sys.executable, "-c", "pass"]
    seconds(tbd, environment)
    a, b = in_turn(pairs, lambda: seconds(tbd, environment), lambda: seconds(bare, environment))
    return ratio("tbd ls --json / python -c pass", "<= 12", a, b)
