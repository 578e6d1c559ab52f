"""What is MXNet's own in profiles: the list of its storage against the C library's count of the heap."""

import pytest

from tests.support.allocation_lists import memory_by_batch, played
from tests.support.profiled import marked

pytestmark = marked("mxnet")


def test_the_classes_add_up_to_what_the_heap_has_grown_by(python_of, tmp_path):
    """At a size that makes the libraries' own memory small; the C library knows nothing of the list."""
    trainer = memory_by_batch("mxnet", python_of("mxnet"), tmp_path, [4], size="small")[4]
    memory = played(trainer.data("allocations"))
    assert "mallinfo2" in memory.whole["peak_method"]
    assert memory.peak_bytes == pytest.approx(memory.whole["peak_bytes"], rel=0.10)
    assert memory.peak_bytes < memory.whole["peak_bytes"]
