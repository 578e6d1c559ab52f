"""Keeps cores busy while something else is measured: what a training's computing does to its exchange of gradients."""

import contextlib
import os
import subprocess
import sys
from typing import Any, Iterator, List, Sequence

from workers.trainer.base.failure import TrainerError

# Ends with its parent, whatever becomes of that; says when it is in its place.
SPINNER = """
import os, sys
parent = int(sys.argv[2])
os.sched_setaffinity(0, {int(sys.argv[1])})
sys.stdout.write("!")
sys.stdout.flush()
while os.getppid() == parent:
    for _ in range(200000):
        pass
"""


@contextlib.contextmanager
def busy_cores(cores: Sequence[int]) -> Iterator[None]:
    """Have a process compute on each of ``cores`` (logical core numbers) for as long as the block takes.

    Raises:
        TrainerError: ``setup_failed``, one of them cannot be kept busy.
    """
    spinners: List[Any] = []
    try:
        for core in cores:
            words = [sys.executable, "-S", "-c", SPINNER, str(core), str(os.getpid())]
            spinners.append(subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE))
        for core, spinner in zip(cores, spinners):
            if spinner.stdout.read(1) != b"!":
                raise TrainerError("setup_failed", "core %d cannot be kept busy" % core)
        yield
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()
            spinner.stdout.close()
