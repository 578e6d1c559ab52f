"""What is MXNet's own in profiles: the list of its storage, and what lies outside of it, against the C library."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.allocation_lists import memory_by_batch, played
from tests.support.profiled import LSTM, RESNET

pytestmark = [
    pytest.mark.framework("mxnet"),
    pytest.mark.after_change,
    pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler here"),
]
SOURCE = Path(__file__).resolve().parents[1] / "support" / "aligned_blocks.c"

# At each look of the meter: what the storage holds and what oneDNN holds beside it, by who has asked the C library,
# each over that before the build.
COUNTING = """
import ctypes
from workers.trainer.frameworks.mxnet import meters
held = ctypes.CDLL(None).aligned_blocks_held
held.restype = ctypes.c_size_t
class Heap(meters._Heap):
    def __init__(self):
        super().__init__()
        self.storage, self.beside = held(0), held(1)
    def look(self):
        super().look()
        print("held", self._found[-1], held(0) - self.storage, held(1) - self.beside, flush=True)
meters._Heap = Heap
"""


@pytest.fixture(scope="module")
def preloaded(tmp_path_factory):
    """The library that counts blocks by who has asked for them."""
    made = tmp_path_factory.mktemp("library") / "aligned_blocks.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", made, SOURCE, "-ldl", "-lpthread"], check=True)
    return made


@pytest.mark.parametrize(("model", "batch"), [(LSTM, 64), (RESNET, 4)])
def test_the_storage_has_what_is_listed_and_onednn_nearly_all_that_lies_outside(
    python_of, tmp_path, monkeypatch, preloaded, model, batch
):
    """At a size that makes C++ objects and Python's small; the C library knows nothing of MXNet's record.

    A look before the first backward pass has little of oneDNN's and up to 30 MB of others': counted as outside, too.
    """
    monkeypatch.setenv("LD_PRELOAD", str(preloaded))
    trainer = memory_by_batch("mxnet", python_of("mxnet"), tmp_path, [batch], model, [COUNTING], size="small")[batch]
    memory = played(trainer.data("allocations"))
    looks = [tuple(map(int, line.split()[1:])) for line in trainer.output.splitlines() if line.startswith("held ")]
    assert memory.peak_bytes == pytest.approx(memory.whole["peak_bytes"], rel=0.01)
    assert sum(memory.live.values()) == pytest.approx(looks[-1][1], rel=0.01)
    outside = max(whole - storage for whole, storage, _ in looks)
    assert memory.whole["outside_bytes"] == pytest.approx(outside, rel=0.01, abs=1e6)
    # At the peak, all three at the same look: what else there is on the heap is named by nobody.
    whole, storage, onednn = max(looks)
    assert onednn <= whole - storage
    assert whole - storage - onednn < 0.03 * whole
