"""What PyTorch's profiler has recorded of an exchange is written to by another thread: not after it has been freed."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.trainer_process import ROOT
from workers.node.port_choice import free_port

pytestmark = [
    pytest.mark.framework("pytorch"),
    pytest.mark.after_change,
    pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler here"),
]
SOURCE = Path(ROOT) / "tests" / "support" / "freed_blocks.c"


@pytest.fixture(scope="module")
def preloaded(tmp_path_factory):
    """The library that looks at blocks after they have been freed."""
    made = tmp_path_factory.mktemp("library") / "freed_blocks.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", made, SOURCE, "-lpthread"], check=True)
    return made


# Without the rest one round in six was seen to write on a quiet machine, one in two hundred on a busy one; the first
# that does is enough.
@pytest.mark.parametrize(("rest", "rounds", "written"), [("rest", 200, False), ("no-rest", 5000, True)])
def test_a_profiler_that_waits_for_the_exchange_to_rest_frees_nothing_that_is_written_to(
    python_of, preloaded, rest, rounds, written
):
    """That something is without the wait is a fault of PyTorch (2.13): where it has been mended, the wait can go."""
    command = [python_of("pytorch"), "-m", "tests.support.profiled_exchanges"]
    told = [str(free_port(set())), str(rounds), rest]
    environment = {**os.environ, "LD_PRELOAD": str(preloaded), "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen([*command, str(rank), *told], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    try:
        found = [int(rank.communicate(timeout=100)[0].splitlines()[-1]) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    assert [count > 0 for count in found] == [written] * 2, found
