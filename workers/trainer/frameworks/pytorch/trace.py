"""A recorded PyTorch trace as plain tuples, which need no PyTorch to be looked through.

Times are microseconds on the profiler's clock, one for all threads and devices.
"""

import collections
from typing import Optional

# Our marks in the trace begin with it. After it: a part of the step, or the forward pass of a layer by its number.
MARK = "tbd."
PART = "part:"
# Within an update: the wait for an exchange that the profiler does not see.
WAIT = "wait"
LAYER = "layer:"
WHOLE = "whole"

# What the profiler calls work on a GPU, among other things that it puts on the device's timeline.
_DEVICE_WORK = ("kernel", "gpu_memcpy", "gpu_memset")

# ``kind``: "operator", "communication", "node" (one node of the backward graph, with all that it does), "mark" (ours),
# "kernel" (anything that ran on a GPU), "other"; ``lane``: thread or stream; ``own``: time without what is nested in
# it; ``sequence``: ties a node to the operator whose gradient it is, -1: none; ``elements``: of the first argument,
# where shapes were recorded; ``parent``: position of the event it is nested in, or None; ``launched``: time of the
# kernels that it started itself on a GPU.
Event = collections.namedtuple("Event", "name kind lane start end own sequence elements parent launched")

# ``events``: in order of their start; ``whole``: (start, end) of all steps together; ``ahead``: seconds by which the
# profiler's clock is behind CLOCK_MONOTONIC; ``cuda``: whether kernels of a GPU are among the events.
Trace = collections.namedtuple("Trace", "events whole ahead cuda")


def device_kind(name: str, activity: Optional[str], annotation: bool) -> str:
    """Return the kind of an event on a GPU's timeline.

    Args:
        activity: what the profiler calls it, None where it does not tell: then all is work but annotations.
        annotation: whether it shows, on the device, what a mark of the host's surrounds.
    """
    works = not (annotation or name.startswith(MARK)) if activity is None else activity in _DEVICE_WORK
    return "kernel" if works else "other"
