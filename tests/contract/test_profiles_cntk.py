"""What is CNTK's own in profiles: its plan, with what MKL says, against the C library's count of the heap."""

from pathlib import Path

import pytest

from tests.support.allocation_lists import counting_the_heap, heap_counts, memory_by_batch, played
from workers.trainer.frameworks import heap

pytestmark = [pytest.mark.framework("cntk"), pytest.mark.after_change]
COUNTED = counting_the_heap("workers.trainer.frameworks.cntk.adapter", "Adapter", "build", "step")


# Ways of MKL 2018 to compute: 3 over CNTK's own layout, as on processors that it does not know, 5 with AVX2 in layouts
# of its own, 7 with AVX-512 as well. The switch is not documented; the version is that of CNTK's last package.
@pytest.mark.skipif(heap.in_use_bytes() is None, reason="this C library does not count its heap")
@pytest.mark.parametrize(("way", "needs", "rel"), [("3", "sse2", 0.01), ("5", "avx2", 0.01), ("7", "avx512f", 0.1)])
def test_what_a_sample_adds_to_the_list_is_what_it_takes_from_the_heap(
    python_of, tmp_path, monkeypatch, way, needs, rel
):
    """The C library's count knows nothing of the list, and is no matter of pages; code and tables do not grow, but with
    AVX-512, where another batch may be computed by other code."""
    if needs not in Path("/proc/cpuinfo").read_text():
        pytest.skip(f"this processor has no {needs}")
    monkeypatch.setenv("MKL_DEBUG_CPU_TYPE", way)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    trainers = memory_by_batch("cntk", python_of("cntk"), tmp_path, [2, 16], planted=COUNTED).values()
    # At the list's end all that is made once is there; on the heap what came from before the build to the last step.
    few, many = (sum(played(one.data("allocations")).live.values()) for one in trainers)
    counts = [heap_counts(trainer) for trainer in trainers]
    less, more = (found[-1][1] - found[0][0] for found in counts)
    assert many - few == pytest.approx(more - less, rel=rel)
    assert 0.9 * more < many <= more  # room for MKL's code among it, which is most of it with AVX-512
