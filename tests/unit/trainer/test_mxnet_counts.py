"""Counts of a storage by several threads: the order in which they were made, found again behind that of their times."""

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.trainer.frameworks.mxnet.counts import Count, in_order

MAIN, WORKER = 0, 1


def sizes(counts):
    """What was taken (given back: negative) from one count to the next."""
    ordered = in_order(counts)
    totals = [0, *(count.bytes for count in ordered)]
    return [after - before for before, after in itertools.pairwise(totals)]


def initialised(blocks):
    """[(thread, size)] of a build: the values, the gradient and the array of initial values, which the worker frees."""
    return [
        change for size in blocks for change in [(MAIN, size), (MAIN, size), (MAIN, size), (WORKER, -size), (MAIN, 8)]
    ]


def told(changes, late):
    """(the sizes in the order in which they were counted, the records by time) of changes that are due 100 us apart.

    Args:
        late: {number of a change: us between its count and its time}, in which its thread does not go on.
    """
    counted, free = [], {}
    for number, (thread, size) in enumerate(changes):
        counted_at = max(100 * number, free.get(thread, 0))
        free[thread] = counted_at + late.get(number, 0)
        counted.append((counted_at, free[thread], thread, size))
    counted.sort(key=lambda change: change[0])
    totals = itertools.accumulate(size for _, _, _, size in counted)
    counts = [Count(at, thread, total) for (_, at, thread, _), total in zip(counted, totals, strict=True)]
    return [size for _, _, _, size in counted], sorted(counts, key=lambda count: count.at)


BUILD = initialised([432, 16, 16, 27648, 192, 16, 192, 27648])


@pytest.mark.parametrize(
    "late",
    [
        {},
        # The main thread's third array of a size after the worker's giving back of one: a difference of nothing.
        {2: 101},
        {7: 150, 22: 150},
        # The worker's, after the next array of another size; and long after, when it had to wait for a processor.
        {18: 101},
        {3: 750},
        {8: 1450, 28: 850},
    ],
)
def test_the_sizes_of_blocks_are_found_again_where_a_thread_told_its_count_late(late):
    truth, counts = told(BUILD, late)
    assert sizes(counts) == truth


def test_what_comes_before_another_record_came_before_its_time():
    times = [count.at for count in in_order(told(BUILD, {3: 750})[1])]
    assert times == sorted(times)
    assert times[3] == times[4] == 400


def test_sizes_that_occur_once_are_believed_where_nothing_speaks_against_them():
    changes = [(MAIN, 1000), (WORKER, 24), (MAIN, 7), (WORKER, -24), (MAIN, 333)]
    assert sizes(told(changes, {})[1]) == [1000, 24, 7, -24, 333]


def test_one_thread_tells_its_counts_in_order():
    counts = [Count(5, MAIN, 8), Count(5, MAIN, 24), Count(5, MAIN, 16), Count(6, MAIN, 16)]
    assert in_order(counts) == counts
    assert in_order([]) == []


HISTORIES = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from([16, 24, 96, 4096]), st.integers(0, 400), st.booleans()), max_size=40
)


@given(HISTORIES)
def test_each_thread_keeps_its_order_and_no_count_is_lost(history):
    held, changes = Counter(), []
    for thread, size, _, given_back in history:
        taken = -1 if given_back and held[size] else 1
        held[size] += taken
        changes.append((thread, taken * size))
    _, counts = told(changes, {number: delay for number, (_, _, delay, _) in enumerate(history)})
    ordered = in_order(counts)
    assert len(ordered) == len(counts)
    for thread in range(3):
        assert [count.bytes for count in ordered if count.thread == thread] == [
            count.bytes for count in counts if count.thread == thread
        ]
    assert [count.at for count in ordered] == sorted(count.at for count in ordered)
