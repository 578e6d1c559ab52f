"""What each block of memory is for: arithmetic on the events of PyTorch's allocators, without PyTorch.

By role first: what a weight, its gradient, the optimiser's state, a buffer or the input is stored in, by address at a
time when it was looked up. Then by time: what an operator gives back before it returns is its workspace; what outlives
the operator that took it is the input's in the loading of a batch, a feature map in the forward pass if it is given
back in the same step, and "other" elsewhere: gradients of feature maps, averaging buffers, what an optimiser takes for
the length of its update.
"""

import bisect
import collections

from workers.trainer.protocol import MEMORY_CLASSES

# An allocation (size > 0) or its end (size < 0) ``at`` some time; ``until``: end of the outermost operator, or of the
# node of the backward graph, that it happened in, or None.
Change = collections.namedtuple("Change", "at address size until")

# ``owned``: {address: [(class, bytes)]} as looked up ``at`` some time.
Note = collections.namedtuple("Note", "at owned")

# A part of a step (``step``) or the "build", from ``start`` to ``end``; ``step`` is 0 for the build.
Part = collections.namedtuple("Part", "start end name step")

# Of what outlives its operator, by the part of the step that took it.
BY_TIME = {"input": "input", "host_to_device": "input", "forward": "feature_maps"}


class _Block(object):
    """One stretch of memory: from its allocation to its end."""

    def __init__(self, change):
        self.taken = change
        self.given_back = None
        self.shares = None


def classify(changes, notes, parts):
    """Return [[class_index, delta_bytes, step], …] in order of time.

    Args:
        changes, notes, parts: each in order of time, on one clock. Of parts that lie within each other the inner one
            comes later.
    """
    entries, blocks = _paired(changes)
    _by_role(blocks, notes)
    found = []
    for change, block in entries:
        if block.shares is None:
            block.shares = [(_by_time(block, parts), block.taken.size)]
        step = _part(parts, change.at).step
        sign = 1 if change.size > 0 else -1
        found.extend([MEMORY_CLASSES.index(name), sign * size, step] for name, size in block.shares)
    return found


def _paired(changes):
    """Return ([(change, block)], [block]); ends of what was taken before are left out."""
    live, entries, blocks = {}, [], []
    for change in changes:
        if change.size > 0:
            block = live[change.address] = _Block(change)
            blocks.append(block)
        else:
            block = live.pop(change.address, None)
            if block is None:
                continue
            block.given_back = change
        entries.append((change, block))
    return entries, blocks


def _by_role(blocks, notes):
    by_address = collections.defaultdict(list)
    for block in blocks:
        by_address[block.taken.address].append(block)
    for note in notes:
        for address, owned in note.owned.items():
            for block in by_address[address]:
                if block.taken.at <= note.at and (block.given_back is None or block.given_back.at > note.at):
                    block.shares = _shares(block.taken.size, owned)


def _shares(size, owned):
    """Split a block among those that it stores; what an allocator adds to round it up is "other"."""
    found = collections.OrderedDict()
    for name, count in owned:
        found[name] = found.get(name, 0) + count
    rest = size - sum(found.values())
    if rest:
        found["other"] = found.get("other", 0) + rest
    return list(found.items())


def _by_time(block, parts):
    taken, given_back = block.taken, block.given_back
    if taken.until is not None and given_back is not None and given_back.at <= taken.until:
        return "workspace"
    part = _part(parts, taken.at)
    name = BY_TIME.get(part.name, "other")
    if name == "feature_maps" and (given_back is None or _part(parts, given_back.at).step != part.step):
        return "other"
    return name


def _part(parts, at):
    """Return the innermost part at that time, or the last one before it."""
    position = bisect.bisect_right([part.start for part in parts], at) - 1
    for part in reversed(parts[: position + 1]):
        if part.end >= at:
            return part
    return parts[max(position, 0)]
