"""What each block of memory is for: arithmetic on the events of TensorFlow's allocators, without TensorFlow.

By role first: what a variable, a momentum or the input is stored in, by address at a time when it was looked up, and
what the operators that give the weights' gradients take for them. Then by time: what an operator gives back before it
returns is its workspace; what outlives an operator of the forward pass is a feature map; all else is "other":
gradients of feature maps, buffers of the exchange, what an update takes for its length, statistics, constants, and
what the allocator adds to round a block up.
"""

import bisect
import collections

from workers.trainer.frameworks.tensorflow.scopes import part_of
from workers.trainer.protocol import MEMORY_CLASSES

# ``owned``: {address: (class, whose)} as looked up ``at`` some time; ``whose`` tells variables of a class apart.
Note = collections.namedtuple("Note", "at owned")

# ``bytes`` of the block that the operator takes, of which ``used`` are gradients of weights; the rest is "other".
Gradient = collections.namedtuple("Gradient", "operator bytes used")


class _Block(object):
    """One stretch of memory: from its allocation to its end."""

    def __init__(self, change):
        self.taken = change
        self.given_back_at = None
        # [(class, bytes)]; and since when, where another block has had this role until then.
        self.shares = None
        self.since = None


def classify(changes, notes, gradients, copies, steps):
    """Return [[class_index, delta_bytes, step], …] in order of time.

    Args:
        changes: ``trace.Change`` of one allocator, in order of time.
        notes: ``Note``, in order of time.
        gradients: a ``Gradient`` for each of a step.
        copies: {(operator, bytes)} of operators that look up rows: where the variable is being read, TensorFlow has
            them copy all of it first.
        steps: when each step begins, that of the build (0) first.
    """
    blocks = _blocks(changes)
    _by_role(blocks, notes)
    _gradients(blocks, gradients, steps)
    found = []
    for block in blocks:
        if block.shares is None:
            copied = (block.taken.operator, block.taken.requested) in copies
            block.shares = _shares(block.taken, "other" if copied else _by_time(block, steps), block.taken.requested)
        found.extend(_entries(block))
    found.sort(key=lambda entry: entry[0])
    return [[MEMORY_CLASSES.index(name), size, _step(steps, at)] for at, name, size in found]


def _step(steps, at):
    return max(0, bisect.bisect_right(steps, at) - 1)


def _blocks(changes):
    """Return the blocks in order of their allocation; ends of what was taken before are left out."""
    live, found = {}, []
    for change in changes:
        if change.size > 0:
            live[change.address] = _Block(change)
            found.append(live[change.address])
        elif change.address in live:
            live.pop(change.address).given_back_at = change.at
    return found


def _by_role(blocks, notes):
    by_address = collections.defaultdict(list)
    for block in blocks:
        by_address[block.taken.address].append(block)
    holders = {}
    for note in notes:
        for address, (name, whose) in note.owned.items():
            for block in by_address[address]:
                if block.taken.at <= note.at and (block.given_back_at is None or block.given_back_at > note.at):
                    block.shares = _shares(block.taken, name, block.taken.requested)
                    _hand_over(holders.get((name, whose)), block)
                    holders[name, whose] = block


def _hand_over(former, block):
    """Let ``block`` take its role when the one before it ends: an update may copy what is still being read."""
    if former is not None and former is not block and former.given_back_at is not None:
        if former.given_back_at > block.taken.at:
            block.since = former.given_back_at


def _gradients(blocks, gradients, steps):
    expected = collections.Counter((gradient.operator, gradient.bytes) for gradient in gradients)
    used = {(gradient.operator, gradient.bytes): gradient.used for gradient in gradients}
    found = collections.Counter()
    for block in blocks:
        key = (block.taken.operator, block.taken.requested)
        place = key + (_step(steps, block.taken.at),)
        if block.shares is None and found[place] < expected[key]:
            found[place] += 1
            block.shares = _shares(block.taken, "weight_gradients", used[key])


def _shares(taken, name, used):
    rest = taken.size - used
    return [(name, used)] + ([("other", rest)] if rest else [])


def _by_time(block, steps):
    taken, given_back_at = block.taken, block.given_back_at
    if given_back_at is None:
        return "other"
    if taken.until is not None and given_back_at <= taken.until:
        return "workspace"
    # Outside of a step's graph operators have no scope; what optimising the graph computes once has one of its own.
    in_layer = "/" in taken.operator and not taken.operator.startswith("ConstantFolding/")
    if in_layer and part_of(taken.operator) == "forward" and _step(steps, taken.at) == _step(steps, given_back_at):
        return "feature_maps"
    return "other"


def _entries(block):
    """Yield (time, class, bytes) of a block's allocation, of its taking over a role, and of its end."""
    for name, size in block.shares:
        if block.since is None:
            yield block.taken.at, name, size
        else:
            yield block.taken.at, "workspace", size
            yield block.since, "workspace", -size
            yield block.since, name, size
        if block.given_back_at is not None:
            yield block.given_back_at, name, -size
