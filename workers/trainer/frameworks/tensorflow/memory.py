"""Which memory a training in TensorFlow takes, allocation by allocation: from the trace of its allocators.

A CPU device has two allocators, of which the one for less than 256 KiB is not traced: for this profile alone
TensorFlow is told to use the one that serves GPUs, which traces and counts every block. What operators ask for is the
same.
"""

import collections
import ctypes
import os
from typing import Any, Callable, Dict, Sequence

import tensorflow as tf

from workers.trainer.base.failure import TrainerError
from workers.trainer.base.signatures import Data
from workers.trainer.frameworks import allocation_profile, resident
from workers.trainer.frameworks.allocation_profile import STEPS, Note
from workers.trainer.frameworks.tensorflow import ownership
from workers.trainer.frameworks.tensorflow import trace as tensorflow_trace

_STEP, _NOTE = "step:", "note:"
# Read by TensorFlow when it makes its first CPU device. Source: tensorflow/core/common_runtime/process_state.cc.
_ALLOCATOR_VARIABLE = "TF_CPU_ALLOCATOR_USE_BFC"
METHOD = (
    "xplane allocation events, owner by address and operator, then by time; "
    "TensorFlow gives each gradient back once it is used"
)
# Operators that pass on the memory of what they are given: a gradient of a weight is where its source put it.
_PASSING_ON = ("Identity", "Reshape", "ExpandDims", "Squeeze", "Slice", "Snapshot")
# Operators that write their result into the memory of what they are given where nobody else reads it any more, such as
# the gradient of a table that is read at several places. Source: tensorflow/core/kernels/aggregate_ops.cc.
_ADDING_UP = ("AddN", "AddV2", "Add")


def prepare() -> None:
    """Let TensorFlow trace and count all allocations of CPU devices; before it computes anything."""
    os.environ[_ALLOCATOR_VARIABLE] = "true"


def profile(
    build: Callable[[], Any],
    step: Callable[[], Any],
    owned: Callable[[], Any],
    gradients: Callable[[], Any],
    copies: Callable[[], Any],
    gpu: bool,
) -> Data:
    """Build and run a few steps with tracking on from the first allocation; return the answer of ``memory_profile``.

    Args:
        build: makes everything.
        step: does one step and returns when it is done.
        owned: returns [(class, tensor)] of all that has a role now.
        gradients: returns a ``ownership.Gradient`` for each of a step, once steps were run.
        copies: returns what ``ownership.classify`` takes, once steps were run.

    Raises:
        TrainerError: ``unsupported``, this version of TensorFlow does not tell what its allocators do.
    """
    meter = resident.Rise()
    found = []

    def note():
        with tensorflow_trace.mark(_NOTE + str(len(found))):
            found.append({address(tensor): (name, whose) for whose, (name, tensor) in enumerate(owned())})

    def run():
        for number in range(STEPS + 1):
            with tensorflow_trace.mark(_STEP + str(number)):
                (step if number else build)()
                note()

    trace = tensorflow_trace.record(run)
    meter.stop()
    changes = [change for change in trace.changes if change.allocator.startswith("GPU_0" if gpu else "")]
    if not changes:
        raise TrainerError("unsupported", "TensorFlow %s tells nothing of its allocators" % tf.__version__)
    notes = [(int(name[len(_NOTE) :]), start) for name, start, _ in trace.marks if name.startswith(_NOTE)]
    notes = [Note(start, found[number]) for number, start in notes]
    steps = [start for name, start, _ in trace.marks if name.startswith(_STEP)]
    allocations = ownership.classify(changes, notes, gradients(), copies(), steps)
    peak = _peak("GPU:0" if gpu else "CPU:0")
    return allocation_profile.answer(METHOD, STEPS, allocations, peak, None if gpu else meter.beyond(peak[0]))


def _peak(device):
    """Return (bytes, how they were counted)."""
    method = "tf.config.experimental.get_memory_info, the peak that the BFC allocator of %s counted" % device
    return tf.config.experimental.get_memory_info(device)["peak"], method


def gradients(tensors: Sequence[tf.Tensor]) -> Dict[str, ownership.Gradient]:
    """Return {name: ``ownership.Gradient``} of gradients of weights, tensors of a graph, by their source."""
    sources, used = {}, collections.Counter()
    for tensor in tensors:
        source = _source(tensor)
        sources[source.name] = source
        used[source.name] += _bytes(tensor)
    # Weights that are only ever added up, as the biases of an LSTM, have one gradient together.
    return {
        name: ownership.Gradient(source.op.name, _bytes(source), min(used[name], _bytes(source)), _summands(source))
        for name, source in sources.items()
    }


def _source(tensor):
    """Return the tensor of a graph whose operator has taken the memory that ``tensor`` is in."""
    while tensor.op.type in _PASSING_ON:
        tensor = tensor.op.inputs[0]
    return tensor


def _summands(source):
    """Return the names of the operators whose blocks a sum may be written into."""
    if source.op.type not in _ADDING_UP:
        return ()
    found = [_source(tensor) for tensor in source.op.inputs]
    return tuple(name for one in found for name in (one.op.name,) + _summands(one))


def _bytes(tensor):
    return tensor.shape.num_elements() * tensor.dtype.size


class _Tensor(ctypes.Structure):
    """DLTensor, as far as it is read. Source: dlpack.h."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype", ctypes.c_uint32),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    ]


def address(tensor: Any) -> int:
    """Return where an eager tensor, or the present value of a variable, is stored."""
    if not isinstance(tensor, tf.Variable):
        return _data(tensor)
    read = tensor.read_value()
    # Of a variable whose rows are looked up TensorFlow gives copies away; looking one up has it do so again.
    tf.raw_ops.DisableCopyOnRead(resource=tensor.handle)
    found = _data(tensor.read_value())
    if found != _data(read):
        tf.raw_ops.ResourceGather(resource=tensor.handle, indices=[0], dtype=tensor.dtype)
    return found


def _data(tensor):
    capsule = tf.experimental.dlpack.to_dlpack(tensor)
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    found = ctypes.cast(pointer_of(capsule, b"dltensor"), ctypes.POINTER(_Tensor)).contents
    return found.data + found.byte_offset
