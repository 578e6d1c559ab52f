"""A good log of a real run, spoiled in every way a file can be: that is noticed, and nothing raises."""

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.domain.value.failure import FailureKind
from tests.replays.replay import analysed, entries_of, raw, whole_lines

GOOD = "good_gang"


@pytest.fixture(scope="module")
def good():
    return entries_of(GOOD)


def places(entries):
    """Where to spoil a log: at every third entry, which are of both ranks by turns, and the first of each kind."""
    kinds = [entry["kind"] for entry in entries]
    return sorted({*range(0, len(entries), 3), *(kinds.index(kind) for kind in kinds)})


def renumbered(entries):
    return [{**entry, "seq": number} for number, entry in enumerate(entries, start=1)]


def is_noticed(entries):
    analysis = analysed(entries, "vm")
    return (
        analysis.failure is not None
        and analysis.failure.kind is FailureKind.INVALID_LOG
        and not analysis.validity.sound
    )


def test_every_prefix_is_an_unfinished_log_that_tells_how_far_it_came(good):
    steps = [0]
    for length in range(1, len(good), 2):
        analysis = analysed(good[:length])
        assert analysis.failure.kind is FailureKind.INVALID_LOG, length
        assert "without log_closed" in analysis.failure.message
        assert analysis.measurement("throughput") is None
        steps.append(analysis.summary["steps"])
    assert steps == sorted(steps)
    assert steps[-1] == analysed(good).summary["steps"]


def test_no_entries_at_all_are_an_invalid_log():
    assert is_noticed([])


def test_a_dropped_entry_is_noticed_wherever_it_was(good):
    assert [n for n in places(good) if not is_noticed(good[:n] + good[n + 1 :])] == []


def test_a_doubled_entry_is_noticed_wherever_it_was(good):
    assert [n for n in places(good) if not is_noticed(good[: n + 1] + good[n:])] == []


def test_two_entries_that_changed_places_are_noticed(good):
    spoiled = ([*good[:n], good[n + 1], good[n], *good[n + 2 :]] for n in places(good)[:-1])
    assert [n for n, entries in enumerate(spoiled) if not is_noticed(entries)] == []


def test_dropping_and_doubling_are_noticed_even_where_the_numbers_were_mended(good):
    for n in places(good):
        assert is_noticed(renumbered(good[:n] + good[n + 1 :])), n
        assert is_noticed(renumbered(good[: n + 1] + good[n:])), n


def test_a_rank_whose_end_is_forged_away_makes_the_run_invalid_not_slower(good):
    """Mended numbers and a mended count: what is left to notice it are the rules."""
    for kind in ("interval", "finished"):
        at = next(n for n, entry in enumerate(good) if entry["kind"] == kind and entry["rank"] == 1)
        forged = copy.deepcopy(renumbered(good[:at] + good[at + 1 :]))
        forged[-1]["data"]["entries"] = len(forged)
        analysis = analysed(forged)
        assert analysis.failure is None
        assert analysis.validity.broken, kind


@settings(max_examples=150, deadline=None, derandomize=True)
@given(cut=st.integers(0, len(raw(GOOD)) - 1))
def test_a_file_cut_at_any_byte_is_an_invalid_log(cut):
    assert is_noticed(whole_lines(raw(GOOD)[:cut]))


WRONG = st.one_of(
    st.sampled_from([None, True, -3, 0, "x", "NaN", 1e308, 10**400]),
    st.sampled_from([[], [None], {}, {"a": None}]),
)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(data=st.data(), name=st.sampled_from(["too_short", "killed_rank"]), value=WRONG)
def test_no_wrong_value_anywhere_makes_the_analysis_raise(data, name, value):
    entries = entries_of(name)
    kind = data.draw(st.sampled_from(sorted({entry["kind"] for entry in entries})))
    place = data.draw(st.sampled_from([entry for entry in entries if entry["kind"] == kind]))
    while True:
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        if not place[key] or not isinstance(place[key], dict | list) or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = value
    assert analysed(entries, "vm").to_json()
