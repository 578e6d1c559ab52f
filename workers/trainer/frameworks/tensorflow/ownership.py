"""What each block of memory is for: arithmetic on the events of TensorFlow's allocators, without TensorFlow.

Roles are those of what was looked up by address, and of what the operators that give the weights' gradients take for
them; what an operator's name says tells the rest, see ``workers.trainer.frameworks.allocation_profile``.
"""

import bisect
import collections
from typing import Any, List, Sequence

from workers.trainer.frameworks import allocation_profile
from workers.trainer.frameworks.tensorflow.scopes import part_of, without_update

# ``bytes`` of the block that the operator takes, of which ``used`` are gradients of weights; the rest is "other".
# ``summands``: operators whose block it may write into instead of taking one, where it adds them up.
Gradient = collections.namedtuple("Gradient", "operator bytes used summands")


def classify(
    changes: Sequence[Any], notes: Sequence[Any], gradients: Sequence[Any], copies: Any, steps: Sequence[Any]
) -> List[List[Any]]:
    """Return [[class_index, delta_bytes, step], …] in order of time.

    Args:
        changes: ``trace.Change`` of one allocator, in order of time.
        notes: in order of time; of a ``Note`` {address: (class, whose)}, where ``whose`` tells variables of a class
            apart.
        gradients: a ``Gradient`` for each of a step; where an update is carried out several times, as many equal ones.
        copies: {(operator, bytes)} of operators that look up rows: where the variable is being read, TensorFlow has
            them copy all of it first.
        steps: when each step begins, that of the build (0) first.
    """
    blocks = allocation_profile.paired(changes)
    holders = {}
    for block, (name, whose) in allocation_profile.looked_up(blocks, notes):
        block.divide([(name, block.taken.requested)])
        _hand_over(holders.get((name, whose)), block)
        holders[name, whose] = block
    _gradients(blocks, gradients, steps)
    for block in blocks:
        if block.shares is None:
            copied = (block.taken.operator, block.taken.requested) in copies
            block.divide([("other" if copied else _by_time(block, steps), block.taken.requested)])
    return allocation_profile.listed(blocks, lambda at: _step(steps, at))


def _step(steps, at):
    return max(0, bisect.bisect_right(steps, at) - 1)


def _hand_over(former, block):
    """Let ``block`` take its role when the one before it ends: an update may copy what is still being read."""
    if former is not None and former is not block and former.given_back_at is not None:
        if former.given_back_at > block.taken.at:
            block.since = former.given_back_at


def _gradients(blocks, gradients, steps):
    found, times, before = _taken_for(blocks, gradients, steps), collections.Counter(gradients), collections.Counter()
    by_operator = collections.defaultdict(list)
    for block in blocks:
        by_operator[block.taken.operator, _step(steps, block.taken.at)].append(block)
    for gradient in gradients:
        for step in range(1, len(steps)):
            if gradient.summands and found[gradient.operator, gradient.bytes, step] <= before[gradient]:
                taken = [by_operator[one, step] for one in gradient.summands]
                _written_into(taken, gradient, before[gradient], times[gradient])
        before[gradient] += 1


def _written_into(taken, gradient, number, times):
    """Find the summand's block that ``gradient`` was added up in: the other ones are given back before it.

    Args:
        taken: the blocks of each summand's operator in a step.
        number, times: which of so many updates of the step it is: those of an operator are dealt out in order.
    """
    summands = []
    for blocks in taken:
        fitting = [block for block in blocks if block.taken.requested == gradient.bytes]
        each = max(1, len(fitting) // times)
        summands += [block for block in fitting[number * each :][:each] if block.shares is None]
    if summands:
        last = max(summands, key=lambda block: float("inf") if block.given_back_at is None else block.given_back_at)
        last.divide([("weight_gradients", gradient.used)])


def _taken_for(blocks, gradients, steps):
    """Share out the blocks that the gradients' own operators take; return {(operator, bytes, step): how many}."""
    expected = collections.Counter((gradient.operator, gradient.bytes) for gradient in gradients)
    used = {(gradient.operator, gradient.bytes): gradient.used for gradient in gradients}
    found = collections.Counter()
    for block in blocks:
        key = (block.taken.operator, block.taken.requested)
        place = key + (_step(steps, block.taken.at),)
        if block.shares is None and found[place] < expected[key]:
            found[place] += 1
            block.divide([("weight_gradients", used[key])])
    return found


def _by_time(block, steps):
    if block.is_workspace:
        return "workspace"
    taken, end = block.taken, block.given_back_at
    # Outside of a step's graph operators have no scope; what optimising the graph computes once has one of its own.
    name = without_update(taken.operator)
    in_layer = "/" in name and not name.startswith("ConstantFolding/")
    in_one_step = end is not None and _step(steps, taken.at) == _step(steps, end)
    return "feature_maps" if in_layer and in_one_step and part_of(taken.operator) == "forward" else "other"
