"""A server that hangs is ended, with what its threads were at; one that works, or was stopped for a while, is not."""

import signal
import subprocess
import sys
import time

import pytest

from orchestrator.serve import watchdog

WATCHED = """
import itertools, sys, threading, time
from orchestrator.serve.watchdog import Watchdog
grows, stands, begins_late = itertools.count(1), (lambda: 7), (lambda: 0)
with Watchdog({{"HTTP": grows.__next__, "the reconciler": {}}}, look_s=0.005):
    print("watched", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("works", ["grows.__next__", "begins_late", "stands"])
def test_only_what_hangs_ends_the_server_and_a_stopped_process_has_not_hung(works: str) -> None:
    command = [sys.executable, "-c", WATCHED.format(works)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:  # type: ignore[call-overload]
        process.stdout.readline()
        process.send_signal(signal.SIGSTOP)
        time.sleep(2 * watchdog.LOOKS * 0.005)
        process.send_signal(signal.SIGCONT)
        if works == "stands":
            assert process.wait(60) == watchdog.STATUS
            said = process.stderr.read()
            assert "the reconciler has hung for 0 s: this server ends" in said
            assert 'File "<string>", line 7' in said  # where it waits for its input
        else:
            time.sleep(2 * watchdog.LOOKS * 0.005)
            assert process.poll() is None
            process.stdin.close()
            assert process.wait(60) == 0
