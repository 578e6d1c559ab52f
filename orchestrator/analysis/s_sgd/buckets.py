"""Which gradients are exchanged together: the rules of PyTorch's DistributedDataParallel and of Horovod.

Gradients are given in the order in which they become ready: layer L first, layer 1 last.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

MIB = 2**20
# Horovod 0.21 and later, horovod/common/operations.cc: HOROVOD_FUSION_THRESHOLD and HOROVOD_CYCLE_TIME.
HOROVOD_THRESHOLD_BYTES, HOROVOD_CYCLE_S = 128 * MIB, 1e-3


@dataclass(frozen=True)
class Bucket:
    """Gradients that are exchanged as one message: ``first`` .. ``last`` - 1, places in the order of readiness."""

    first: int
    last: int
    bytes: int


@dataclass(frozen=True)
class Fused:
    """A bucket of Horovod's, with the start and end of its exchange in seconds."""

    bucket: Bucket
    start_s: float
    end_s: float


def ddp_buckets(gradient_bytes: Sequence[int], cap_bytes: int, first_cap_bytes: int | None = None) -> list[Bucket]:
    """Return DDP's buckets from its second iteration on (torch, csrc/distributed/c10d/reducer.cpp,
    ``compute_bucket_assignment_by_size``); in the first one there is a single bucket.

    A bucket is closed by the gradient that makes it reach its cap, and so may be larger. ``first_cap_bytes``: of the
    first bucket, where DDP chose the caps itself; a ``bucket_cap_mb`` that is given holds for the first one too.
    """
    found: list[Bucket] = []
    first, size = 0, 0
    for place, one in enumerate(gradient_bytes):
        size += one
        cap = first_cap_bytes if first_cap_bytes is not None and not found else cap_bytes
        if size >= cap:
            found.append(Bucket(first, place + 1, size))
            first, size = place + 1, 0
    if first < len(gradient_bytes):
        found.append(Bucket(first, len(gradient_bytes), size))
    return found


def horovod_buckets(gradient_bytes: Sequence[int], threshold_bytes: int) -> list[Bucket]:
    """Return what Horovod fuses of gradients that are all ready (``Controller::FuseResponses``): no bucket is larger
    than the threshold, but for a single gradient that is."""
    found: list[Bucket] = []
    first, size = 0, 0
    for place, one in enumerate(gradient_bytes):
        if place > first and size + one > threshold_bytes:
            found.append(Bucket(first, place, size))
            first, size = place, 0
        size += one
    if first < len(gradient_bytes):
        found.append(Bucket(first, len(gradient_bytes), size))
    return found


def horovod_exchanges(
    ready_s: Sequence[float],
    gradient_bytes: Sequence[int],
    seconds: Callable[[int], float],
    threshold_bytes: int = HOROVOD_THRESHOLD_BYTES,
    cycle_s: float = HOROVOD_CYCLE_S,
) -> list[Fused]:
    """Return Horovod's exchanges: what is ready when a cycle begins is exchanged in it, in one bucket or several.

    A cycle begins ``cycle_s`` after the one before, or when that one's exchanges have ended
    (horovod/common/operations.cc, ``RunLoopOnce``, with operations that are waited for, as Gloo's). That the first
    begins with the backward pass is an assumption: nothing ties the two.

    Args:
        ready_s: seconds from the start of the backward pass, rising; as many as gradients.
        seconds: of the exchange of so many bytes.
        cycle_s: above 0.
    """
    found: list[Fused] = []
    now, done = 0.0, 0
    while done < len(ready_s):
        if ready_s[done] > now:  # whole cycles without work
            now = max(now + cycle_s * math.ceil((ready_s[done] - now) / cycle_s), ready_s[done])
        ready = done
        while ready < len(ready_s) and ready_s[ready] <= now:
            ready += 1
        end = now
        for bucket in horovod_buckets(gradient_bytes[done:ready], threshold_bytes):
            start, end = end, end + seconds(bucket.bytes)
            found.append(Fused(Bucket(done + bucket.first, done + bucket.last, bucket.bytes), start, end))
        now, done = max(now + cycle_s, end), ready
    return found
