"""A rank whose training has gone wrong ends, also where leaving the others would wait for them for ever."""

import subprocess
import time

import pytest

from tests.trainer_process import ROOT

HANGS = """
import sys, time
from torch import distributed
from workers.trainer.frameworks.pytorch import ddp
distributed.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=0, world_size=1)
distributed.destroy_process_group = lambda: time.sleep(120)  # as NCCL's does where a peer is gone
ddp.LEAVE_S = 0.2
ddp.Strategy().close()
print("left")
"""


@pytest.mark.framework("pytorch")
def test_a_group_that_cannot_be_left_is_waited_for_briefly(python_of, tmp_path):
    begun = time.monotonic()
    command = [python_of("pytorch"), "-c", HANGS, str(tmp_path / "meeting")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.strip()) == (0, "left"), done.stderr
    assert time.monotonic() - begun < 60
