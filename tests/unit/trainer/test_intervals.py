"""Unions of spans, against counting on a grid."""

from hypothesis import given
from hypothesis import strategies as st

from workers.trainer.frameworks import intervals

SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)).map(lambda pair: (pair[0], pair[0] + pair[1])))


@given(SPANS)
def test_the_union_covers_each_moment_once(spans):
    covered = {moment for start, end in spans for moment in range(start, end)}
    assert intervals.union(spans) == len(covered)


@given(SPANS, st.integers(0, 40), st.integers(0, 40))
def test_clipping_keeps_what_lies_inside(spans, start, length):
    covered = {moment for a, b in spans for moment in range(a, b) if start <= moment < start + length}
    assert intervals.union(intervals.clip(spans, start, start + length)) == len(covered)
