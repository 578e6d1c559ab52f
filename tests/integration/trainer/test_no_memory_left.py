"""A process that has no memory left at all still ends, and says why."""

import subprocess

from tests.trainer_process import Trainer, make_job
from workers.trainer import protocol

# Lines that run before the trainer: where it opens its channel, all memory that it may have is taken, down to the last
# integer, and kept.
PLANTED = """
import resource
from workers.trainer import control
kept = [None] * 3_000_000
def take_all(*_, **__):
    used = [int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("VmData")][0]
    resource.setrlimit(resource.RLIMIT_DATA, (used + (64 << 20),) * 2)
    place = 0
    for size in (1 << 20, 1 << 16, 4096, 400, 200, 100, 60, 40, 24, 8):
        while True:
            try:
                kept[place] = bytes(size)
            except MemoryError:
                break
            place += 1
    number = 1 << 20
    while True:
        kept[place] = number = number + 1
        place += 1
control.open_channel = take_all
"""


def test_a_process_without_any_memory_ends_and_reports_it(tmp_path):
    trainer = Trainer(make_job("sleep", "sleep"), tmp_path, planted=[PLANTED])
    try:
        status = trainer.finish(timeout_s=30.0)
    except subprocess.TimeoutExpired:
        raise AssertionError("it neither ended nor went on") from None
    assert status == protocol.EXIT_STATUS["out_of_memory"], trainer.output
    (error,) = trainer.data("error")
    assert error["failure"] == "out_of_memory"
    assert error["type"] == "MemoryError"
