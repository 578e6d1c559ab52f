"""Reads the trace of TensorFlow's profiler (an XSpace of planes, one per device or host, of lines, one per thread).

Source of the format: tsl/profiler/protobuf/xplane.proto; times are nanoseconds of a line plus picoseconds of an event.
"""

import glob
import os
import re

from tensorflow.tsl.profiler.protobuf import xplane_pb2

from workers.trainer.frameworks import intervals

# An executed operator is recorded as "name:Type"; the runtime's own regions as "Class::Method" or with a blank.
OPERATOR = re.compile(r"^[^:\s]*:[A-Za-z_]\w*$")


def activity(folder, gpu):
    """Return {active_s, elapsed_s, method} of the trace in ``folder``, between the ends of its ``tbd.activity``.

    Of several GPUs of the process it is the mean.
    """
    space = xplane_pb2.XSpace()
    with open(glob.glob(os.path.join(folder, "**", "*.xplane.pb"), recursive=True)[0], "rb") as file:
        space.ParseFromString(file.read())
    host = [event for plane in space.planes if plane.name.startswith("/host:CPU") for event in _events(plane)]
    start, end = next(span for _, name, span in host if name == "tbd.activity")
    if gpu:
        planes = [plane for plane in space.planes if plane.name.startswith("/device:GPU")]
        active = [[span for line, _, span in _events(plane) if line.startswith("Stream")] for plane in planes]
    else:
        # All CPU devices of a process are one pool of threads.
        active = [[span for _, name, span in host if OPERATOR.match(name)]]
    unions = [intervals.union(intervals.clip(spans, start, end)) for spans in active]
    return {
        "active_s": sum(unions) / len(unions) * 1e-9,
        "elapsed_s": (end - start) * 1e-9,
        "method": "kernel-union" if gpu else "operator-union",
    }


def _events(plane):
    """Yield (line name, event name, (start, end) in nanoseconds) of a plane."""
    for line in plane.lines:
        for event in line.events:
            start = line.timestamp_ns + event.offset_ps * 1e-3
            yield line.name, plane.event_metadata[event.metadata_id].name, (start, start + event.duration_ps * 1e-3)
