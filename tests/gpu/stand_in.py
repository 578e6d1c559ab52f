"""Stands for a GPU in a process of PyTorch's CPU build: what is asked to be on ``cuda`` is on the CPU.

``torch.cuda`` stays PyTorch's own Python. What it calls in C and a CPU build lacks is here: initialisation, devices,
streams, events and the allocator's statistics. So the order of calls is held to by PyTorch's own rules, and by those of
its events (ATen/cuda/CUDAEvent.h). The profiler's events get a stream of kernels beside them: of each operator that
works itself, a kernel of its length. Tensors say that they are on the CPU. Times are the host's: nothing is measured
here, and nothing that comes from it is a figure of a GPU.

``install()`` comes right after ``import torch``, before the adapter; it lasts as long as the process.
"""

import functools
import importlib
import time
import types
import weakref
from typing import Any, Dict, List, Optional

import torch
from torch.autograd import DeviceType
from torch.autograd.profiler_util import FunctionEvent
from torch.overrides import TorchFunctionMode

from tests.gpu.stand_in_names import CONTEXT_BYTES, COUNTED, NAME, TOTAL_BYTES

CAPABILITY = (9, 0)
STREAM = 7
KERNEL = "kernel of "
# Operators that run nothing on a GPU.
ROOM = (
    "aten::empty",
    "aten::as_strided",
    "aten::resize_",
    "aten::view",
    "aten::detach",
    "aten::resolve_",
    "aten::transpose",
)

# name -> how often it was called: what a test asks for at the end.
called: Dict[str, int] = {}


class _Device:
    """The one GPU: what was called on it so far, and which bytes live."""

    def __init__(self) -> None:
        self.ready = False
        self.synchronized = 0
        self.current_bytes = self.peak_bytes = 0
        self._held: Dict[int, Any] = {}

    def hold(self, tensor: torch.Tensor) -> None:
        """Count a tensor's storage for as long as it lives."""
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key not in self._held:
            self._held[key] = weakref.ref(storage, lambda _: self._give_back(key, size))
            self.current_bytes += size
            self.peak_bytes = max(self.peak_bytes, self.current_bytes)

    def _give_back(self, key: int, size: int) -> None:
        del self._held[key]
        self.current_bytes -= size


_gpu = _Device()


def _needs_ready(function: Any) -> Any:
    """Wrap what fails in C before there is a context (CUDACachingAllocator.cpp: "did you call init?")."""

    @functools.wraps(function)
    def checked(*arguments: Any) -> Any:
        if not _gpu.ready:
            raise RuntimeError(f"Invalid device argument {(arguments or (0,))[0]}: did you call init?")
        return function(*arguments)

    return checked


def _init() -> None:
    _gpu.ready = True
    properties = types.SimpleNamespace(
        name=NAME, major=CAPABILITY[0], minor=CAPABILITY[1], total_memory=TOTAL_BYTES, multi_processor_count=132
    )
    torch.cuda._get_device_properties = lambda index: properties  # type: ignore[attr-defined]


@_needs_ready
def _statistics(index: int) -> Dict[str, Any]:
    held = {"all": {"current": _gpu.current_bytes, "peak": _gpu.peak_bytes}}
    return {"allocated_bytes": held, "reserved_bytes": held}


@_needs_ready
def _reset_peak(index: int) -> None:
    _gpu.peak_bytes = _gpu.current_bytes


@_needs_ready
def _synchronize() -> None:
    _gpu.synchronized += 1


class _Stream:
    """The default one: there is no other."""

    stream_id, device_index, device_type = 0, 0, 1

    def __new__(cls, *_: Any, **more: Any) -> "_Stream":
        return super().__new__(cls)

    def synchronize(self) -> None:
        _synchronize()


class _Event:
    """Rules and words of ``CUDAEvent::elapsed_time``. Work is done only when somebody has waited for it."""

    def __new__(cls, *_: Any, enable_timing: bool = False, **more: Any) -> "_Event":
        event = super().__new__(cls)
        event.timing, event.at, event.recorded = enable_timing, None, None  # type: ignore[attr-defined]
        return event

    at: Optional[float]
    recorded: Optional[int]
    timing: bool

    def record(self, stream: _Stream) -> None:
        self.at, self.recorded = time.perf_counter(), _gpu.synchronized

    def query(self) -> bool:
        return self.recorded is None or self.recorded < _gpu.synchronized

    def synchronize(self) -> None:
        if self.recorded is not None:
            self.recorded = -1

    def elapsed_time(self, other: "_Event") -> float:
        if not (self.timing and other.timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self.at is None or other.at is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if not (self.query() and other.query()):
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        return (other.at - self.at) * 1e3


class _OnCpu(TorchFunctionMode):
    """Puts on the CPU what is asked to be on ``cuda``, and counts it; page-locked memory is memory like all other."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.device:
            return function(*args, **(kwargs or {}))
        if function is torch.Tensor.pin_memory:
            called[".pin_memory"] = called.get(".pin_memory", 0) + 1
            torch.cuda.init()
            return args[0].clone()
        moved = [False]
        args, kwargs = _moved(tuple(args), moved), _moved(dict(kwargs or {}), moved)
        if moved[0]:
            torch.cuda.init()
        found = function(*args, **kwargs)
        if _gpu.ready:
            for one in found if isinstance(found, (tuple, list)) else (found,):
                if isinstance(one, torch.Tensor) and (moved[0] or one.grad_fn is not None):
                    _gpu.hold(one)
        return found


def _moved(value: Any, moved: List[bool]) -> Any:
    kind = value.type if isinstance(value, torch.device) else value if isinstance(value, str) else None
    if kind == "cuda":
        moved[0] = True
        return torch.device("cpu")
    if isinstance(value, dict):
        return {name: _moved(one, moved) for name, one in value.items()}
    if isinstance(value, (tuple, list)) and type(value) in (tuple, list):
        return type(value)(_moved(one, moved) for one in value)
    return value


class _Autocast(torch.autocast):
    """A GPU's operators are CPU operators here, and so is what casts their operands."""

    def __init__(self, device_type: str, **more: Any) -> None:
        super().__init__("cpu" if device_type == "cuda" else device_type, **more)


class _Generator(torch.Generator):
    def __new__(cls, device: Any = "cpu") -> Any:
        return super().__new__(cls, device=_moved(device, [False]))


class _Profile(torch.profiler.profile):
    """Adds the kernels, where they were asked for; this build's own profiler knows of no GPU to watch."""

    def __init__(self, *, activities: Any, **more: Any) -> None:
        self._with_gpu = torch.profiler.ProfilerActivity.CUDA in activities
        super().__init__(activities=[torch.profiler.ProfilerActivity.CPU], **more)

    def events(self) -> Any:
        found = super().events()
        if not self._with_gpu:
            return found
        return list(found) + [_kernel(event) for event in list(found) if _computes(event)]

    def stop(self) -> None:
        super().stop()
        if self._with_gpu and self.profiler is not None:
            self.profiler.kineto_results = _Results(self.profiler)


class _Results:
    """The profiler's own list, with the kernels."""

    def __init__(self, profiler: Any) -> None:
        self._results = profiler.kineto_results
        self._kernels = [
            _RawKernel(event, self.trace_start_ns()) for event in profiler.function_events if _computes(event)
        ]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._results, name)

    def events(self) -> List[Any]:
        return [*self._results.events(), *self._kernels]


class _RawKernel:
    """The kernel of an operator as it stands in that list."""

    def __init__(self, event: Any, zero_ns: int) -> None:
        span = event.time_range
        told = {
            "name": KERNEL + event.name,
            "device_type": DeviceType.CUDA,
            "activity_type": "kernel",
            "is_user_annotation": False,
            "device_resource_id": STREAM,
            "start_ns": zero_ns + int(1e3 * span.start),
            "duration_ns": int(1e3 * (span.end - span.start)),
        }
        for name, value in told.items():
            setattr(self, name, lambda value=value: value)


def _computes(event: Any) -> bool:
    """Whether an operator does its work itself: what it calls only makes room."""
    inner = [child for child in event.cpu_children if child.name.startswith("aten::")]
    own = event.device_type == DeviceType.CPU and event.name.startswith("aten::")
    return own and not event.name.startswith(ROOM) and all(child.name.startswith(ROOM) for child in inner)


def _kernel(event: Any) -> Any:
    """Return the kernel of an operator, which is told of it as the profiler tells it."""
    span = event.time_range
    event.append_kernel(KERNEL + event.name, 0, span.end - span.start)
    return FunctionEvent(
        id=event.id,
        name=KERNEL + event.name,
        thread=0,
        start_us=span.start,
        end_us=span.end,
        device_type=DeviceType.CUDA,
        device_resource_id=STREAM,
        activity_type="kernel",
        sequence_nr=-1,
        input_shapes=[],
    )


class _Fields:
    """What the profiler tells of an allocation, made on the GPU."""

    device = torch.device("cuda", 0)

    def __init__(self, fields: Any) -> None:
        self._fields = fields

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fields, name)


class _Node:
    """An event of the profiler's tree; allocations are those of the GPU."""

    def __init__(self, node: Any) -> None:
        self._node = node

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._node, name)
        if name == "children":
            return [_Node(one) for one in found]
        if name == "parent":
            return found if found is None else _Node(found)
        return _Fields(found) if name == "extra_fields" and self._node.tag.name == "Allocation" else found


class _MemoryProfile(torch.autograd.profiler.profile):
    """Its tree tells of the GPU's allocator, whose peak is known once it has been recorded."""

    @property
    def kineto_results(self) -> Any:
        return self._results

    @kineto_results.setter
    def kineto_results(self, results: Any) -> None:
        self._results = results

    def __exit__(self, *error: Any) -> Any:
        told = super().__exit__(*error)
        if self.profile_memory and self._results is not None:
            tree = self._results.experimental_event_tree()
            self._results = types.SimpleNamespace(experimental_event_tree=lambda: [_Node(one) for one in tree])
            if _gpu.ready:
                _gpu.peak_bytes = max([one.extra_fields.total_allocated for one in _allocations(tree)] or [0])
        return told


def _allocations(tree: Any) -> List[Any]:
    waiting, found = list(tree), []
    while waiting:
        event = waiting.pop()
        waiting.extend(event.children)
        if event.tag.name == "Allocation":
            found.append(event)
    return found


def install() -> None:
    """Put the stand-in in the place of what PyTorch's CPU build lacks."""
    core = torch._C
    functions = {
        "_cuda_init": _init,
        "_cuda_getDeviceCount": lambda: 1,
        "_cuda_getDevice": _needs_ready(lambda: 0),
        "_cuda_setDevice": lambda index: torch.cuda.init(),
        "_cuda_exchangeDevice": lambda index: 0,
        "_cuda_maybeExchangeDevice": lambda index: 0,
        "_cuda_getArchFlags": lambda: "sm_90",
        "_cuda_isInBadFork": lambda: False,
        "_cuda_memoryStats": _statistics,
        "_cuda_resetPeakMemoryStats": _reset_peak,
        "_cuda_synchronize": _synchronize,
        "_cuda_getCurrentStream": _needs_ready(lambda index: (0, 0, 1)),
        "_cuda_getCurrentRawStream": _needs_ready(lambda index: 0),
        "_CudaStreamBase": _Stream,
        "_CudaEventBase": _Event,
    }
    for name, function in functions.items():
        setattr(core, name, function)
    streams = importlib.reload(importlib.import_module("torch.cuda.streams"))
    torch.cuda.Event, torch.cuda.Stream = streams.Event, streams.Stream  # type: ignore[misc]
    memory = lambda index: (TOTAL_BYTES - CONTEXT_BYTES - _gpu.peak_bytes, TOTAL_BYTES)  # noqa: E731
    torch.cuda._cudart = types.SimpleNamespace(cudaMemGetInfo=memory)  # type: ignore[assignment]
    torch.cuda.default_generators = (torch.Generator(),)
    torch.backends.cuda.is_built = lambda: True
    for name in ("_exchange_device", "_maybe_exchange_device"):
        setattr(torch.cuda, name, lambda index: 0)
    torch.cuda._is_in_bad_fork = lambda: False  # type: ignore[attr-defined]
    for name in COUNTED:
        setattr(torch.cuda, name, _counted("torch.cuda." + name, getattr(torch.cuda, name)))
    torch.autocast = torch.amp.autocast = _Autocast  # type: ignore[misc]
    torch.Generator = _Generator  # type: ignore[misc]
    torch.profiler.profile = _Profile  # type: ignore[misc]
    torch.autograd.profiler.profile = _MemoryProfile  # type: ignore[misc]
    _OnCpu().__enter__()


def _counted(name: str, function: Any) -> Any:
    @functools.wraps(function, updated=())
    def counting(*arguments: Any, **more: Any) -> Any:
        called[name] = called.get(name, 0) + 1
        return function(*arguments, **more)

    return counting
