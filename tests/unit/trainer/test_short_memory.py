"""How a process tells that its memory is short, with and without a limit."""

import errno
import subprocess
import sys

import pytest

from workers.trainer.__main__ import failure_of

AT_THE_LIMIT = [
    "MXNetError: Resource temporarily unavailable",
    "MXNetError: could not create a memory object",
    "ImportError: CompleteArgumentSpec: Unable to create type object!",
    "libtorch.so: failed to map segment from shared object",
    "libmxnet.so: cannot map zero-fill pages",
    "<function _handle_fromlist at 0x7f1e1528fe20> returned NULL without setting an exception",
    "error return without exception set",
    "Cannot allocate memory",
]
ASKS = """
import resource, sys
resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))
from workers.trainer.base.failure import lacks_memory
print(lacks_memory(RuntimeError(sys.argv[1])), lacks_memory(RuntimeError("an assertion failed")))
"""


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.ENOMEM, "fork"),
        RuntimeError("std::bad_alloc"),
        RuntimeError("MXNetError: std: :bad_alloc"),
    ],
)
def test_memory_that_is_short_is_told_by_every_framework_s_way_to_say_so(error):
    assert failure_of(error, None) == "out_of_memory"


def test_memory_that_is_short_is_told_by_what_an_error_was_raised_from():
    error = ImportError("the framework is broken")
    error.__cause__ = MemoryError()
    assert failure_of(error, None) == "out_of_memory"
    error.__cause__ = error
    assert failure_of(error, None) == "crashed"


@pytest.mark.parametrize("said", AT_THE_LIMIT)
def test_what_may_have_another_cause_is_short_memory_only_in_a_process_with_a_limit(said):
    assert failure_of(RuntimeError(said), None) == "crashed"
    limited = subprocess.run([sys.executable, "-c", ASKS, said], capture_output=True, text=True, check=True)
    assert limited.stdout.split() == ["True", "False"]
