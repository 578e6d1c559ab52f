"""What each allocation of MXNet's storage is for: arithmetic on sizes and times, without MXNet.

By role first: of what is allocated when a model has been made, arrays of the sizes of its weights, gradients and
running statistics are those; of what the first update leaves, arrays of the sizes of the momenta. Then by time: what
a pass takes and gives back is the workspace that its operators share, and so is what grows by being given back and
taken larger. What the forward pass keeps is feature maps if the graph has arrays of that size that grow with the
batch, "other" if it has arrays of that size that do not (copies of weights), and else the operators' own: workspace.
The taking of a batch is the input, and anything else "other": gradients of feature maps among it.

The memory of a graph is planned once. Operators share a few workspaces in turn, and one may first be used in a later
step: what a later step keeps beside what the first one kept is workspace.
"""

import collections
from typing import Any, List, Optional, Sequence, Tuple

from workers.trainer.protocol import MEMORY_CLASSES

PART = "tbd.memory."

# An allocation (size > 0) or a release (size < 0), at microseconds since the epoch.
Change = collections.namedtuple("Change", "at size")

# Bytes: what is smaller is a number (a loss), and no workspace.
SMALLEST_WORKSPACE = 64

PASSES = ("forward", "backward")


class Arrays(collections.namedtuple("Arrays", "growing fixed")):
    """Sizes in bytes of the arrays that a graph's operators put out: those that grow with the batch, and the others."""


class _Block(object):
    def __init__(self, change, part):
        self.size = change.size
        # (name, number) of the part that took it, and of the one that gave it back.
        self.taken, self.given_back = part, None
        # Whether it was taken in place of a smaller one, or given back for a larger.
        self.replaced = False
        self.name = None


def classify(
    changes: Sequence[Any], parts: Sequence[Any], notes: Sequence[Tuple[str, int]], arrays: Optional[Arrays] = None
) -> List[List[Any]]:
    """Return [[time, class_index, delta_bytes, step], …] of one device in order of time.

    Args:
        changes: of the device, in order of time.
        parts: [(start, end, name, step)] in order of time.
        notes: [(class, bytes)] of what has a role after the build, and of what has one after the first update.
        arrays: the ``Arrays`` of the graph; None where it is not known, then all that the forward pass keeps is
            feature maps.
    """
    roles = [(_end(parts, "build"), ("build", 0), notes[0]), (_end(parts, "update"), ("update", 1), notes[1])]
    entries, blocks = _paired(changes, parts, roles)
    _by_time(blocks, arrays)
    found = []
    for change, block in entries:
        step = _part(parts, change.at)[3]
        found.append([change.at, MEMORY_CLASSES.index(block.name), change.size, step])
    return found


def _paired(changes, parts, roles):
    """Return ([(change, block)], [block]).

    Of blocks of one size the youngest without a role is given back first: what has a role stays.

    Args:
        roles: [(time, (part, step), [(class, bytes)])]: of what that part took, what is there at that time has a role.
    """
    live, entries, blocks = collections.defaultdict(list), [], []
    waiting = list(roles)
    released = None
    for change in changes:
        while waiting and waiting[0][0] < change.at:
            _give_roles(live, *waiting.pop(0)[1:])
        part = _part(parts, change.at)[2:]
        if change.size > 0:
            block = _Block(change, part)
            _replace(released, block)
            released = None
            live[change.size].append(block)
            blocks.append(block)
        else:
            block = released = _youngest(live[-change.size])
            if block is None:
                # Taken before the record began: the workspace of an earlier network.
                continue
            live[-change.size].remove(block)
            block.given_back = part
        entries.append((change, block))
    for role in waiting:
        _give_roles(live, *role[1:])
    return entries, blocks


def _replace(released, block):
    """Note if ``block`` takes the place of what was given back just before: the workspace of operators that grows."""
    if released is None or block.taken[0] not in PASSES or released.given_back != block.taken:
        return
    if SMALLEST_WORKSPACE <= released.size < block.size:
        released.replaced = block.replaced = True


def _youngest(blocks):
    return next((block for block in reversed(blocks) if block.name is None), None)


def _give_roles(live, part, owned):
    for name, size in owned:
        block = next((one for one in live[size] if one.name is None and one.taken == part), None)
        if block is not None:
            block.name = name


def _by_time(blocks, arrays):
    # What each pass of the first step has kept, {pass: {size: how many}}; and how much of it a later step has had.
    planned = {name: collections.Counter() for name in PASSES}
    taken = collections.Counter()
    for block in blocks:
        if block.name is not None:
            continue
        name, step = block.taken
        if name not in PASSES:
            block.name = "input" if name == "input" else "other"
        elif block.replaced or block.given_back == block.taken:
            block.name = "workspace"
        elif step == 1:
            planned[name][block.size] += 1
            block.name = _kept(name, block.size, arrays)
        else:
            taken[block.taken, block.size] += 1
            again = taken[block.taken, block.size] <= planned[name][block.size]
            block.name = _kept(name, block.size, arrays) if again else "workspace"


def _kept(name, size, arrays):
    """Return the class of what a pass keeps."""
    if name == "backward":
        return "other"
    if arrays is None or size in arrays.growing:
        return "feature_maps"
    return "other" if size in arrays.fixed else "workspace"


def _end(parts, name):
    return next(end for _, end, found, _ in parts if found == name)


def _part(parts, at):
    """Return the last part that began before that time, or the first."""
    found = parts[0]
    for part in parts:
        if part[0] > at:
            break
        found = part
    return found
