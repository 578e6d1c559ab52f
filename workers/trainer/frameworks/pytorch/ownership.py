"""What each block of memory is for: arithmetic on the events of PyTorch's allocators, without PyTorch.

Roles are those of what was looked up by address; what a part of a step took tells the rest, see
``workers.trainer.frameworks.allocation_profile``. In the loading of a batch what outlives its operator is the input's.
"""

import bisect
import collections
from typing import Any, List, Sequence

from workers.trainer.frameworks import allocation_profile

# An allocation (size > 0) or its end (size < 0) ``at`` some time; ``until``: end of the outermost operator, or of the
# node of the backward graph, that it happened in, or None; ``thread``: that did it.
Change = collections.namedtuple("Change", "at address size until thread")

# A part of a step (``step``) or the "build", from ``start`` to ``end``; ``step`` is 0 for the build.
Part = collections.namedtuple("Part", "start end name step")

# Of what outlives its operator, by the part of the step that took it.
BY_TIME = {"input": "input", "host_to_device": "input", "forward": "feature_maps"}


def classify(changes: Sequence[Any], notes: Sequence[Any], parts: Sequence[Any]) -> List[List[Any]]:
    """Return [[class_index, delta_bytes, step], …] in order of time.

    Args:
        changes, notes, parts: each in order of time, on one clock; of a ``Note`` {address: [(class, bytes)]}. Of parts
            that lie within each other the inner one comes later.
    """
    blocks = allocation_profile.paired(changes)
    for block, owned in allocation_profile.looked_up(blocks, notes):
        block.divide(owned)
    for block in blocks:
        if block.shares is None:
            block.divide([(_by_time(block, parts), block.taken.size)])
    return allocation_profile.listed(blocks, lambda at: _part(parts, at).step)


def _by_time(block, parts):
    if block.is_workspace:
        return "workspace"
    part = _part(parts, block.taken.at)
    name, end = BY_TIME.get(part.name, "other"), block.given_back_at
    # Ends that are not told are those of an exchange's threads, which nobody records: DistributedDataParallel agrees on
    # its buckets at the beginning of a forward pass.
    lost = end is None or not block.told
    if name == "feature_maps" and (lost or _part(parts, end).step != part.step):
        return "other"
    return name


def _part(parts, at):
    """Return the innermost part at that time, or the last one before it."""
    position = bisect.bisect_right([part.start for part in parts], at) - 1
    for part in reversed(parts[: position + 1]):
        if part.end >= at:
            return part
    return parts[max(position, 0)]
