"""Recording a trace: the one place that knows the types of PyTorch's profiler."""

import contextlib
import time
from typing import Any, Callable, ContextManager, Iterator, Optional

import torch

from workers.trainer.frameworks.pytorch.trace import MARK, WHOLE, Event, Trace, device_kind

_CLOCK = "clock"
# Judgement: the shortest of so many readings of both clocks aligns them, within a few microseconds.
_CLOCK_READINGS = 5


def mark(name: str) -> ContextManager[Any]:
    """Return a context manager: what runs in it is nested in an event of kind "mark" with this name."""
    return torch.profiler.record_function(MARK + name)


class Recorded(object):
    """What ``recording`` yields; ``trace``: the ``Trace``, once that is over."""

    def __init__(self) -> None:
        self.trace: Optional[Trace] = None


def record(
    steps: int,
    step: Callable[[], Any],
    synchronize: Callable[[], None],
    rest: Callable[[], None],
    cuda: bool,
    shapes: bool = False,
    device_only: bool = False,
) -> Trace:
    """Run ``step`` so many times under the profiler; return the ``Trace``. The rest is as in ``recording``."""
    with recording(synchronize, rest, cuda, shapes, device_only) as recorded:
        for _ in range(steps):
            step()
    assert recorded.trace is not None
    return recorded.trace


@contextlib.contextmanager
def recording(
    synchronize: Callable[[], None],
    rest: Callable[[], None],
    cuda: bool,
    shapes: bool = False,
    device_only: bool = False,
) -> Iterator[Recorded]:
    """Record what runs within, whoever does it.

    Args:
        synchronize: returns when the device has done all of it; the time it takes counts.
        rest: returns when no other thread writes to what is recorded: what follows frees it. Its time does not count.
        device_only: of a GPU, only its work and our marks are wanted. The profiler's events in Python take 0.1 ms each,
            and a recurrent network launches 100,000 kernels a step.
    """
    recorded = Recorded()
    kinds = [torch.profiler.ProfilerActivity.CPU] + [torch.profiler.ProfilerActivity.CUDA] * cuda
    device_only = device_only and cuda
    # Events that are kept over several recordings are made in Python at once.
    with torch.profiler.profile(activities=kinds, acc_events=not device_only, record_shapes=shapes) as profiler:
        readings = [_clock_reading() for _ in range(_CLOCK_READINGS)]
        with mark(WHOLE):
            yield recorded
            synchronize()
        rest()
    if device_only:
        recorded.trace = _of_device(profiler.profiler.kineto_results, readings)
    else:
        recorded.trace = _trace(profiler.events(), readings, cuda)


def _clock_reading():
    with mark(_CLOCK):
        return time.monotonic()


def _trace(found, readings, cuda):
    # Of those that start together the longer one comes first: it is the other's parent.
    found = sorted(found, key=lambda event: (event.time_range.start, -event.time_range.end))
    positions = {id(event): position for position, event in enumerate(found)}
    return _aligned([_event(event, positions) for event in found], readings, cuda)


def _of_device(results, readings):
    """The same from the profiler's own list."""
    zero_ns, found = results.trace_start_ns(), []
    for one in results.events():
        name, on_host = one.name(), one.device_type() == torch.autograd.DeviceType.CPU
        if on_host and not name.startswith(MARK):
            continue
        start = (one.start_ns() - zero_ns) / 1e3
        end = start + one.duration_ns() / 1e3
        activity = one.activity_type() if hasattr(one, "activity_type") else None
        kind = "mark" if on_host else device_kind(name, activity, one.is_user_annotation())
        lane = "host" if on_host else "stream %s" % one.device_resource_id()
        found.append(Event(name, kind, lane, start, end, end - start, -1, 0, None, 0.0))
    return _aligned(sorted(found, key=lambda event: (event.start, -event.end)), readings, True)


def _aligned(events, readings, cuda):
    clocks = [event for event in events if event.name == MARK + _CLOCK and event.kind == "mark"]
    _, ahead = min((c.end - c.start, at - (c.start + c.end) * 0.5e-6) for c, at in zip(clocks, readings))
    whole = next(event for event in events if event.name == MARK + WHOLE and event.kind == "mark")
    return Trace(events, (whole.start, whole.end), ahead, cuda)


def _event(event, positions):
    start, end = event.time_range.start, event.time_range.end
    kind = _kind(event)
    on_host = event.device_type == torch.autograd.DeviceType.CPU
    # The profiler knows no own time of what ends on another thread than it began on, and of kernels.
    own = end - start if event.is_async or not on_host else event.self_cpu_time_total
    return Event(
        event.name,
        kind,
        "thread %s" % event.thread if on_host else "stream %s" % event.device_resource_id,
        start,
        end,
        own,
        event.sequence_nr,
        _elements(event),
        positions.get(id(event.cpu_parent)),
        sum(kernel.duration for kernel in event.kernels) if on_host else 0.0,
    )


def _kind(event):
    name = event.name
    if event.device_type != torch.autograd.DeviceType.CPU:
        # Older versions do not say what kind of activity it is.
        return device_kind(name, getattr(event, "activity_type", None), event.is_user_annotation)
    if name.startswith(("gloo:", "nccl:", "c10d::")):
        return "communication"
    if name.startswith(MARK):
        return "mark"
    if name.startswith("autograd::engine::evaluate_function"):
        return "node"
    named = "::" in name and not name.startswith(("autograd::", "torch::autograd::"))
    named = named or "_cpp_fused_" in name  # what torch.compile writes for CPU devices
    return "operator" if named and not event.is_user_annotation else "other"


def _elements(event):
    """Return the number of elements of the first argument, 0 where that is not known."""
    shape = event.input_shapes[0] if event.input_shapes else []
    count = 1 if shape else 0
    for extent in shape:
        count *= extent
    return count
