"""Two programs in slices that alternate: what of the time counts, and that nobody stays frozen."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bench.slices import Side, free_time, in_blocks, speeds, take_turns, with_needle
from tests.support.service import until


def side(steps=(), slices=()):
    return Side(list, lambda: list(steps), list(slices))


def test_time_in_which_a_side_is_frozen_does_not_count():
    slices = [(10.0, 13.0), (20.0, 23.0)]
    assert free_time(slices, 12.0) == 2.0
    assert free_time(slices, 17.0) == 3.0
    assert free_time(slices, 21.0) == 4.0


def test_a_step_that_is_frozen_in_its_middle_counts_in_both_slices():
    # Two seconds a step while free. The second step ends one second into the second slice.
    slices = [(0.0, 3.0), (10.0, 13.0), (20.0, 23.0), (30.0, 33.0)]
    steps = [0.0, 2.0, 11.0, 13.0, 22.0, 31.0, 33.0]
    assert speeds(side(steps, slices)) == pytest.approx([0.5, 0.5])


def test_a_pause_while_free_counts():
    slices = [(0.0, 3.0), (10.0, 13.0), (20.0, 23.0)]
    steps = [0.0, 1.0, 2.0, 3.0, 11.0, 13.0, 21.0, 22.0, 23.0]
    assert speeds(side(steps, slices)) == pytest.approx([2 / 3])


def test_a_side_that_ends_early_gives_no_figure():
    with pytest.raises(ValueError, match="stopped training"):
        speeds(side([0.0, 1.0], [(0.0, 3.0), (10.0, 13.0), (20.0, 23.0)]))


def test_blocks_are_geometric_means_and_drop_the_rest():
    assert in_blocks([1.0, 4.0, 2.0, 2.0, 2.0, 9.0]) == pytest.approx([2.0])


def test_nobody_stays_frozen_when_the_turns_are_interrupted(monkeypatch):
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)

    def interrupt(duration_s):
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            take_turns(Side(lambda: [child.pid], list), side(), 2)
        assert Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T"
    finally:
        os.kill(child.pid, signal.SIGCONT)
        child.kill()
        child.wait()
        assert child.stdin is not None
        child.stdin.close()


def test_descendants_belong_to_a_side_though_their_environment_says_nothing():
    child = "import os, subprocess, sys; os.environ.clear(); subprocess.run([sys.executable, '-c', 'input()'])"
    parent = subprocess.Popen(
        [sys.executable, "-c", f"print(flush=True); {child}"],
        env={**os.environ, "MARK": "needle-of-this-test"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert parent.stdin is not None
    assert parent.stdout is not None
    try:
        parent.stdout.readline()
        until(lambda: len(with_needle("needle-of-this-test")) == 2)
        assert parent.pid in with_needle("needle-of-this-test")
    finally:
        parent.stdin.close()
        parent.wait()
        parent.stdout.close()
