"""What the profiles of memory share: blocks, their classes, and the answer of ``memory_profile``.

The class of a block is by role first: what a weight, its gradient, the optimiser's state or a batch was found to be
stored in. Then by time: what an operator gives back before it returns is its workspace; what outlives an operator of
the forward pass is a feature map if the same step gives it back; all else is "other": gradients of feature maps,
buffers of the exchange, what an update takes for its length, statistics, constants. What an allocator adds to round a
block up is "other" too. How roles and parts of a step are told stands in the ``ownership`` of PyTorch, TensorFlow and
MXNet. CNTK tells of no single allocation: its roles follow from its graph (``frameworks/cntk/memory.py``).
"""

import collections
from typing import Any, Callable, Iterable, Iterator, List, Optional, Tuple

from workers.trainer.base.signatures import Data
from workers.trainer.protocol import MEMORY_CLASSES

# Judgement: the least. The first step makes what stays (momenta), the second is the first usual one, the third must be
# its like.
STEPS = 3

# ``owned``: {address: what the framework knows of it} as looked up ``at`` some time.
Note = collections.namedtuple("Note", "at owned")


class Block(object):
    """One stretch of memory, from its allocation to its end.

    ``taken``: its allocation; ``shares``: [(class, bytes)]; ``since``: when it begins to have them, where another block
    has had this role until then: before that it is workspace; ``told``: whether its end was told, False where another
    block in its place is all that is known of it.
    """

    def __init__(self, taken: Any) -> None:
        self.taken = taken
        self.given_back_at = None
        self.told = True
        self.shares = None
        self.since = None

    @property
    def is_workspace(self) -> bool:
        """Whether it was given back before the operator that took it returned."""
        until = self.taken.until
        return until is not None and self.given_back_at is not None and self.given_back_at <= until

    def divide(self, owned: Iterable[Tuple[str, int]]) -> None:
        """Share it among [(class, bytes)] that are stored in it."""
        found = collections.OrderedDict()
        for name, size in owned:
            found[name] = found.get(name, 0) + size
        rest = self.taken.size - sum(found.values())
        if rest:
            found["other"] = found.get("other", 0) + rest
        self.shares = list(found.items())

    def entries(self) -> Iterator[Tuple[float, str, int]]:
        """Yield (time, class, bytes) of its allocation, of its taking over a role, and of its end."""
        for name, size in self.shares:
            if self.since is None:
                yield self.taken.at, name, size
            else:
                yield self.taken.at, "workspace", size
                yield self.since, "workspace", -size
                yield self.since, name, size
            if self.given_back_at is not None:
                yield self.given_back_at, name, -size


def paired(changes: Iterable[Any]) -> List[Block]:
    """Return the blocks in order of their allocation; ends of what was taken before are left out.

    Args:
        changes: in order of time, each with ``at``, ``address``, ``size`` (negative: an end), ``thread`` where it is
            known and, of an allocation, ``until``, the end of the operator that it happened in, or None.
    """
    live, late, found = {}, collections.defaultdict(list), []
    for change in changes:
        if change.size > 0:
            if change.address in live:
                # One thread gave it back, another took it and told so first: the end that comes next is that of before.
                # Or it was given back where nobody records.
                before = live[change.address]
                before.given_back_at, before.told = change.at, False
                late[change.address].append(before)
            live[change.address] = Block(change)
            found.append(live[change.address])
        elif late[change.address] and not _in_one_thread(live.get(change.address), change):
            late[change.address].pop(0).told = True
        elif change.address in live:
            live.pop(change.address).given_back_at = change.at
    return found


def _in_one_thread(block, end):
    """Return whether one thread took the block and told the end: then it is this block's, not that of one before it."""
    thread = getattr(end, "thread", None)
    return block is not None and thread is not None and block.taken.thread == thread


def looked_up(blocks: Iterable[Block], notes: Iterable[Any]) -> Iterator[Tuple[Block, Any]]:
    """Yield (block, what a ``Note`` knows of it) for each block that was there when its address was looked up."""
    by_address = collections.defaultdict(list)
    for block in blocks:
        by_address[block.taken.address].append(block)
    for note in notes:
        for address, owned in note.owned.items():
            for block in by_address[address]:
                if block.taken.at <= note.at and (block.given_back_at is None or block.given_back_at > note.at):
                    yield block, owned


def listed(blocks: Iterable[Block], step_at: Callable[[float], int]) -> List[List[Any]]:
    """Return [[class_index, delta_bytes, step], …] in order of time; ``step_at``: returns a time's step."""
    found = sorted((entry for block in blocks for entry in block.entries()), key=lambda entry: entry[0])
    return [[MEMORY_CLASSES.index(name), size, step_at(at)] for at, name, size in found]


def answer(
    method: str,
    steps: int,
    allocations: List[List[Any]],
    peak: Tuple[int, str],
    outside_bytes: Optional[int] = None,
    peak_from_step: int = 0,
) -> Data:
    """Return the answer of ``memory_profile``.

    Args:
        peak: (bytes, how they were measured), read when the list was complete: nothing in it knows of them.
        peak_from_step: the first step that ``peak`` counts; 0: all, and the build.
    """
    return {
        "method": method,
        "steps": steps,
        "classes": list(MEMORY_CLASSES),
        "allocations": allocations,
        "peak_bytes": peak[0],
        "peak_method": peak[1],
        "outside_bytes": outside_bytes,
        "peak_from_step": peak_from_step,
    }
