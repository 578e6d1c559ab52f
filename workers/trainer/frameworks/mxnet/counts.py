"""In which order a storage was counted, where several threads counted at once: without MXNet.

A thread adds the bytes of a block to the count and then takes the time of its record. Another one may add and take its
time in between. The record of the first then tells an older count at a later time, and differences of counts by time
are no sizes of blocks. Source: MXNet 1.9.1, src/profiler/profiler.h, ``ProfileCounter::IncrementValue`` and
``ProfileCounterStat``.

What holds nevertheless: the records of one thread are in order, and a count was made after the record before it of its
thread and before its own time. Of the orders that this leaves, the one is looked for in which the fewest differences
cannot be blocks, and of these the one that leaves the most records in the order of their times.
"""

import collections
from typing import List, Sequence

# How many orders are followed at a time.
_ORDERS = 8

# A count: ``at`` microseconds since the epoch, ``bytes`` now held, by the record of ``thread``.
Count = collections.namedtuple("Count", "at thread bytes")

# The beginning of an order: how many of its differences cannot be blocks, and how many records come before one of an
# earlier time; the last count and the blocks that are held, {bytes: how many}; how many records of each thread it has,
# and the records, as (all but the last, the last).
_Order = collections.namedtuple("_Order", "impossible moved bytes held reached records")


def in_order(counts: Sequence[Count]) -> List[Count]:
    """Return the counts in the order in which they were made, with times that do not fall.

    Args:
        counts: of one device; those of a thread in the order of its records.
    """
    by_time = sorted(counts, key=lambda count: count.at)
    threads = collections.defaultdict(list)
    for count in by_time:
        threads[count.thread].append(count)
    if len(threads) > 1:
        by_time = _likeliest(list(threads.values()), _sizes(by_time), len(by_time))
    return _earliest(by_time)


def _sizes(by_time):
    """Return the sizes of blocks: most are taken more than once, or taken and given back."""
    found, before = collections.Counter(), 0
    for count in by_time:
        found[abs(count.bytes - before)] += 1
        before = count.bytes
    return {size for size, times in found.items() if size and times > 1}


def _likeliest(threads, sizes, length):
    orders = [_Order(0, 0, 0, {}, (0,) * len(threads), None)]
    for _ in range(length):
        best = {}
        for order in orders:
            for longer in _continued(order, threads, sizes):
                same = longer.reached, longer.bytes
                if same not in best or longer[:2] < best[same][:2]:
                    best[same] = longer
        orders = sorted(best.values(), key=lambda order: order[:2])[:_ORDERS]
    found, records = [], orders[0].records
    while records is not None:
        records, count = records
        found.append(count)
    return found[::-1]


def _continued(order, threads, sizes):
    """Yield the order with each of the records that can be its next."""
    waiting = [number for number, place in enumerate(order.reached) if place < len(threads[number])]
    first = min(waiting, key=lambda number: threads[number][order.reached[number]].at)
    first_at = threads[first][order.reached[first]].at
    for number in waiting:
        place = order.reached[number]
        if place and threads[number][place - 1].at > first_at:
            continue
        count = threads[number][place]
        held, possible = _after(order.held, count.bytes - order.bytes, sizes)
        reached = order.reached[:number] + (place + 1,) + order.reached[number + 1 :]
        impossible, moved = order.impossible + (not possible), order.moved + (number != first)
        yield _Order(impossible, moved, count.bytes, held, reached, (order.records, count))


def _after(held, change, sizes):
    """Return the blocks that are held after a change, and whether it can be one block taken or given back."""
    size = abs(change)
    possible = size in sizes and (change > 0 or held.get(size, 0) > 0)
    if not change:
        return held, possible
    after = dict(held)
    after[size] = after.get(size, 0) + (1 if change > 0 else -1)
    return after, possible


def _earliest(ordered):
    """Return the counts with times that do not fall: what comes before another one came before its time."""
    found, at = [], float("inf")
    for count in reversed(ordered):
        at = min(at, count.at)
        found.append(count._replace(at=at))
    return found[::-1]
