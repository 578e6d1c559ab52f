"""What may come in: text, numbers and the shape of JSON, in one place."""

import json

import pytest

from orchestrator.domain.words import untrusted


def problems(value):
    return untrusted.parse_json(json.dumps(value).encode())[1]


@pytest.mark.parametrize("text", ["plain", "résumé", "模型", "😀", "a b|c<d>", "̈", "\u200f"])
def test_any_text_that_people_write_comes_in(text):
    assert problems({"labels": {text: text}}) == []
    assert untrusted.parse_json(json.dumps({"k": text}, ensure_ascii=False).encode()) == ({"k": text}, [])


@pytest.mark.parametrize("text", ["\ud800", "a\udc00b", "\x00", "abc\n", "\x1b[31m", "\x7f", "\x9b31m", "\r"])
@pytest.mark.parametrize("escaped", [True, False])
def test_what_is_no_text_is_refused_as_a_value_and_as_a_key(text, escaped):
    if not escaped and any(0xD800 <= ord(c) < 0xE000 or ord(c) < 32 for c in text):
        return  # that is no UTF-8, or no JSON
    for value in ({"labels": {"k": text}}, {"labels": {text: "v"}}, {"a": [[text]]}, text):
        raw = json.dumps(value, ensure_ascii=escaped).encode()
        assert len(untrusted.parse_json(raw)[1]) == 1, raw


def test_a_problem_points_at_its_place_and_can_be_shown():
    (found,) = problems({"a": [1, {"b/c": "\ud800"}]})
    assert found.pointer == "/a/1/b~1c"
    (found,) = problems({"\x1b[31m": 1})
    assert found.pointer == "/\\x1b[31m"


@pytest.mark.parametrize("raw", [b"1e309", b"-1e999", b"9223372036854775808", b"1" + b"0" * 400, b'{"a": [1e400]}'])
def test_a_number_that_no_database_holds_is_refused(raw):
    assert len(untrusted.parse_json(raw)[1]) == 1


@pytest.mark.parametrize("raw", [b"0.1", b"-1e-5", b"1e300", b"9223372036854775807", b"-3", b"1795232430.9828572"])
def test_other_numbers_come_in(raw):
    assert untrusted.parse_json(raw) == (json.loads(raw), [])


@pytest.mark.parametrize("raw", [b'{"a": 1, "a": 2}', b"[NaN]", b"[" * 200_000, b'{"a":' * 100_000, b"\xff"])
def test_what_is_no_json_to_rely_on_is_malformed(raw):
    with pytest.raises(untrusted.Malformed):
        untrusted.parse_json(raw)


def test_a_key_that_stands_twice_is_named():
    with pytest.raises(untrusted.Malformed, match="'repeats' twice"):
        untrusted.parse_json(b'{"repeats": 1, "x": {"y": 1}, "repeats": 2}')


def test_what_is_nested_beyond_reason_is_refused_without_recursion():
    value = []
    for _ in range(untrusted.DEEPEST + 5):
        value = [value]
    (found,) = problems(value)
    assert "deep" in found.message


def test_only_the_first_problems_are_told():
    assert len(problems(["\x00"] * 1000)) == untrusted.MOST_PROBLEMS


def test_what_a_program_printed_may_hold_anything_and_is_kept_as_text():
    line = json.dumps({"kind": "output", "data": {"text": "\x1b[1mStep 1\r\n\udcff", "process": "w"}}).encode()
    entry, found = untrusted.parse_entry(line)
    assert found == []
    assert entry["data"]["text"] == "\x1b[1mStep 1\r\n\ufffd"


def test_elsewhere_in_a_log_the_same_holds_as_in_a_request():
    line = json.dumps({"kind": "output", "data": {"text": "fine", "process": "w\x1b[31m"}}).encode()
    (found,) = untrusted.parse_entry(line)[1]
    assert found.pointer == "/data/process"


@pytest.mark.parametrize(("text", "shown"), [("a\x1b[31mb\ud800", "a\\x1b[31mb\\ud800"), ("é\n", "é\\x0a"), ("", "")])
def test_text_is_shown_with_what_cannot_be_seen_as_escapes(text, shown):
    assert untrusted.visible(text) == shown


@pytest.mark.parametrize(
    ("seconds", "is_one"),
    [
        (0, True),
        (1.7e9, True),
        (-1.0, False),
        (1e18, False),
        (float("nan"), False),
        (float("inf"), False),
        ("1", False),
    ],
)
def test_a_time_lies_between_1970_and_9999(seconds, is_one):
    assert untrusted.is_time(seconds) == is_one
