"""Cursors of lists: what was encoded comes back, anything else is refused."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.db.connection import cursors
from orchestrator.domain.words.errors import InvalidRequest


@given(st.floats(allow_nan=False, allow_infinity=False), st.from_regex(r"[a-z0-9_]{0,30}", fullmatch=True))
def test_a_position_comes_back_exactly(at: float, identifier: str) -> None:
    assert cursors.decode(cursors.encode((at, identifier))) == (at, identifier)


@given(st.text() | st.binary().map(lambda data: data.decode("latin-1")))
def test_any_other_text_is_refused_and_nothing_else_is_raised(text: str) -> None:
    with contextlib.suppress(InvalidRequest):
        at, identifier = cursors.decode(text)
        assert isinstance(at, float)
        assert isinstance(identifier, str)


def test_a_page_goes_on_after_a_damaged_row_whose_time_is_none() -> None:
    assert cursors.decode(cursors.encode((float("inf"), "a"))) == (float("inf"), "a")


@pytest.mark.parametrize("position", [(1.0, "é"), (1.0, "\x00")])
def test_a_forged_position_is_refused(position: tuple[float, str]) -> None:
    with pytest.raises(InvalidRequest, match="/cursor"):
        cursors.decode(cursors.encode(position))
