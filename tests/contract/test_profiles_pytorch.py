"""What is PyTorch's own in profiles: feature maps against the C library's count."""

import pytest

from tests.support.allocation_lists import counting_the_heap, heap_counts, memory_by_batch, played
from tests.support.profiled import LSTM, RESNET
from workers.trainer.frameworks import heap

pytestmark = [pytest.mark.framework("pytorch"), pytest.mark.after_change]
COUNTED = counting_the_heap("workers.trainer.frameworks.pytorch.step", "Minimizer", "forward")


@pytest.mark.skipif(heap.in_use_bytes() is None, reason="this C library has no mallinfo2")
@pytest.mark.parametrize(("model", "batch", "tolerance"), [(RESNET, 16, 0.05), (LSTM, 64, 0.2)])
def test_the_feature_maps_are_what_the_c_library_counts_over_a_forward_pass(
    python_of, tmp_path, monkeypatch, model, batch, tolerance
):
    """ResNet-50's are all held until the backward pass; an LSTM's mean gives some back before."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    trainer = memory_by_batch("pytorch", python_of("pytorch"), tmp_path, [batch], model, COUNTED)[batch]
    before, after = heap_counts(trainer)[-1]
    most = played(trainer.data("allocations")).most
    assert most["feature_maps"] == pytest.approx(after - before, rel=tolerance)
