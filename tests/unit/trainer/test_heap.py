"""The count of the C library's heap, of this process's own."""

import ctypes

import pytest

from workers.trainer.frameworks import heap


@pytest.mark.skipif(heap.in_use_bytes() is None, reason="the C library here does not tell")
@pytest.mark.parametrize("size", [100_000, 50_000_000])
def test_what_is_taken_and_not_given_back_is_counted_touched_or_not(size):
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    before = heap.in_use_bytes()
    taken = library.malloc(ctypes.c_size_t(size))
    between = heap.in_use_bytes()
    library.free(ctypes.c_void_p(taken))
    assert between - before == pytest.approx(size, abs=20_000)
    assert heap.in_use_bytes() - before < 20_000
