"""What ends a sleep: somebody who wakes, and the end of a process."""

import subprocess
import sys

from workers.node import processes
from workers.node.waking import Waking

# Longer than any test may take: a sleep that does not end early fails by time-out.
FOR_EVER_S = 600.0


def test_who_was_woken_does_not_sleep_again():
    waking = Waking()
    waking.wake()
    waking.sleep(FOR_EVER_S)
    waking.sleep(FOR_EVER_S)
    waking.close()


def test_waking_one_that_sleeps_no_more_does_nothing():
    waking = Waking()
    waking.close()
    waking.wake()


def test_the_end_of_a_process_ends_the_sleep_and_of_one_that_ended_before_too():
    waking = Waking()
    child = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    process = processes.identify(child.pid)
    child.stdin.close()
    waking.sleep(FOR_EVER_S, [process])
    assert not processes.alive(process)
    waking.sleep(FOR_EVER_S, [process])  # a zombie: its exit is not yet asked for
    child.wait()
    waking.sleep(FOR_EVER_S, [process])
    waking.close()
