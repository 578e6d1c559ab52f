"""Kineto's files through tbd's own parser of PyTorch's profiler, held against ``tests.gpu.kineto``'s arithmetic.

``python3 -m tests.gpu.parsed FILE…`` in an interpreter with PyTorch: a line for each file, exit status 1 where a figure
is off. A file is made into the events that PyTorch's profiler hands out, by PyTorch's own classes; from there on all is
what a run goes through. Recordings of public projects are kept nowhere here: give the paths of your own copies.
"""

import sys
from pathlib import Path
from typing import Any, Dict, Sequence, Tuple

from torch.autograd import DeviceType
from torch.autograd.profiler_util import EventList, FunctionEvent

from tests.gpu import kineto, recordings
from workers.trainer.frameworks.pytorch import events as recording
from workers.trainer.frameworks.pytorch import kernels
from workers.trainer.frameworks.pytorch.trace import Trace

# Seconds, of sums of numbers that the file has in microseconds with three decimals.
NEAR_S = 1e-8
ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation", "memcpy", "memset")
ON_HOST = ("cpu_op", "user_annotation", "operator", "cuda_runtime", "cuda_driver", "runtime", "cpu_instant_event")


def trace_of(found: Sequence[Dict[str, Any]]) -> Trace:
    """Return the ``Trace`` of a file's complete events; the whole of it counts as the steps."""
    listed = [_event(event) for event in found if _category(event) in (*ON_DEVICE, *ON_HOST)]
    on_host: Any = EventList(one for one in listed if one.device_type == DeviceType.CPU)
    by_id: Dict[int, Any] = {
        one.external_id: one for one in on_host if one.external_id and one.activity_type == "cpu_op"
    }
    for one in listed:
        if one.device_type != DeviceType.CPU and one.external_id in by_id:
            by_id[one.external_id].append_kernel(one.name, 0, one.time_range.end - one.time_range.start)
    # It also takes out operators that only call one of the same name, as in a run.
    on_host._build_tree()
    on_device = [one for one in listed if one.device_type != DeviceType.CPU]
    ordered = sorted([*on_host, *on_device], key=lambda one: (one.time_range.start, -one.time_range.end))
    positions = {id(one): position for position, one in enumerate(ordered)}
    events = [recording._event(one, positions) for one in ordered]
    # A kernel of no length at the very end counts too.
    end = max(event.end for event in events) + 1.0
    return Trace(events, (min(event.start for event in events), end), 0.0, True)


def _category(event: Dict[str, Any]) -> str:
    return str(event.get("cat", "")).lower()


def _event(event: Dict[str, Any]) -> Any:
    kind, told = _category(event), event.get("args") or {}
    device = kind in ON_DEVICE
    start = float(event["ts"])
    return FunctionEvent(
        id=int(told.get("correlation", 0)),
        name=event["name"],
        thread=hash(event.get("tid")) % 2**31,
        start_us=start,
        end_us=start + float(event["dur"]),
        device_type=DeviceType.CUDA if device else DeviceType.CPU,
        device_resource_id=told.get("stream", event.get("tid")) if device else None,
        sequence_nr=int(told.get("Sequence number", -1)),
        is_user_annotation=kind in ("user_annotation", "gpu_user_annotation"),
        activity_type={"memcpy": "gpu_memcpy", "memset": "gpu_memset", "operator": "cpu_op"}.get(kind, kind),
        external_id=int(told.get("External id", told.get("external id", 0)) or 0),
        # Of a list of tensors the profiler hands out no shapes.
        input_shapes=[[] if any(isinstance(n, list) for n in one) else one for one in told.get("Input Dims") or []],
    )


def held(path: Path) -> Tuple[str, bool]:
    """Return what is said of a file, and whether tbd's figures are those of the other arithmetic."""
    found = kineto.events(path)
    wanted = kineto.work(found)
    trace = trace_of(found)
    table = kernels.table(trace, 1)
    active_s = kernels.activity(trace)["active_s"]
    count, total_s = sum(row[1] for row in table["rows"]), sum(row[2] for row in table["rows"])
    launched_s = sum(event.launched for event in trace.events) * 1e-6
    said = f"{path.name}: {count} launches of {len(table['rows'])} kernels, {1e3 * total_s:.4f} ms, "
    if wanted.count == 0:
        return said + f"active {active_s}", count == 0 and active_s is None
    near = abs(total_s - wanted.total_s) <= NEAR_S * max(1, count) and abs(active_s - wanted.union_s) <= NEAR_S * count
    by_hand = f"{wanted.count}, {1e3 * wanted.total_s:.4f}, {1e3 * wanted.union_s:.4f} ms"
    said += f"active {1e3 * active_s:.4f} ms; by hand {by_hand}"
    said += f"; {100 * launched_s / total_s:.1f} % of it with its operator"
    return said, near and count == wanted.count


if __name__ == "__main__":
    sys.exit(recordings.hold(held, sys.argv[1:]))
