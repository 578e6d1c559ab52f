"""The search for the first slower one finds it, whichever it is, and says what it cannot tell apart."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.analysis.gate import bisecting


def searched(count: int, first: int, mute: frozenset[int]) -> tuple[bisecting.Search, int]:
    """(The search at its end, how many questions it took), where places in ``mute`` give no answer."""
    search, asked = bisecting.begin(count), 1
    while (place := search.next()) is not None:
        answer = "cannot_tell" if place in mute else "slower" if place >= first else "no_such_loss"
        search, asked = search.after(place, answer), asked + 1
    return search, asked


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data())
def test_the_first_slower_one_is_found_within_the_questions_that_were_told(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 300))
    first = data.draw(st.integers(1, count - 1))
    search, asked = searched(count, first, frozenset())
    assert list(search.suspects()) == [first]
    assert asked <= bisecting.questions(count)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data())
def test_those_that_give_no_answer_stay_suspects_and_no_others(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 40))
    first = data.draw(st.integers(1, count - 1))
    mute = data.draw(st.frozensets(st.integers(1, max(1, count - 2)), max_size=count))
    search, _ = searched(count, first, mute)
    assert first in search.suspects()
    assert set(list(search.suspects())[:-1]) <= mute


def test_one_and_too_many_are_refused_and_the_loss_that_is_asked_for_is_bounded() -> None:
    for count in (1, bisecting.MOST + 1):
        with pytest.raises(ValueError, match="a search is among 2 to"):
            bisecting.begin(count)
    assert [bisecting.asked(effect) for effect in (-0.04, -0.001, -1.5)] == [pytest.approx(0.034), 0.005, 0.99]
    assert [bisecting.level(count) for count in (2, 16, 1000)] == pytest.approx([0.01, 0.01, 0.05 / 11])
    assert [bisecting.questions(count) for count in (2, 3, 16, 17, 18)] == [1, 2, 5, 5, 6]
