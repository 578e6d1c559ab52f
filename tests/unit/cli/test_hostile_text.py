"""Text that somebody else wrote obeys nobody: on a screen, in a report, in a spec file."""

import io
import json

import pytest

from orchestrator.cli import streams
from orchestrator.cli.exits import CommandError
from orchestrator.cli.spec_file import LONGEST, SpecFile
from orchestrator.reports import table

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


class Screen(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("\x1b[31mred\x1b[0m\tand\n", "\x1b[31mred\x1b[0m\tand\n"),
        ("vm\x1b[2J\x1b]0;title\x07", "vm\\x1b[2J\\x1b]0;title\\x07"),
        ("50 %\r100 %\r\n", "50 %\\x0d100 %\n"),
        ("\x9b31m\ud800\x00", "\\x9b31m\\ud800\\x00"),
    ],
)
def test_of_what_would_command_a_screen_only_colours_reach_it(text, seen):
    screen = Screen()
    assert streams.Terminal(screen).write(text) == len(text)
    assert screen.getvalue() == seen


def test_both_streams_of_a_command_are_guarded_where_they_are_a_screen(monkeypatch):
    screens = {"stdout": Screen(), "stderr": Screen()}
    for name, screen in screens.items():
        monkeypatch.setattr(f"sys.{name}", screen)
    streams.prepare()
    import sys

    print("a\x1b[2J")
    print("b\x1b[2J", file=sys.stderr)
    streams.redraw("c\x1b[2J")
    assert screens["stdout"].getvalue() == "a\\x1b[2J\n"
    assert screens["stderr"].getvalue() == "b\\x1b[2J\n\r\x1b[Kc\\x1b[2J"


def test_text_in_a_report_is_neither_markup_nor_html():
    row = {
        "node": "vm\x1b[2J<script>alert(1)</script>",
        "list": ["a`b", "c&d"],
        "n": 1.5,
        "stderr_tail": "a < b\n\x1b[2J",
    }
    assert table.plain_text(row) == {
        "node": "vm\\x1b[2J&lt;script>alert(1)&lt;/script>",
        "list": ["a'b", "c&amp;d"],
        "n": 1.5,
        "stderr_tail": "a < b\n\\x1b[2J",
    }


def spec_file(tmp_path, text, name="spec.yaml"):
    path = tmp_path / name
    path.write_text(text)
    return SpecFile(str(path))


@pytest.mark.parametrize("text", [BOMB, "x: &a [*a]\n", "[" * 5000, "x" * (LONGEST + 1)])
def test_a_file_that_would_never_end_is_refused(tmp_path, text):
    with pytest.raises(CommandError):
        spec_file(tmp_path, text)


def test_anchors_are_taken_within_reason(tmp_path):
    assert spec_file(tmp_path, "a: &a [1, 2]\nb: *a\n").spec == {"a": [1, 2], "b": [1, 2]}


def test_a_key_that_stands_twice_is_refused_in_json_as_in_yaml(tmp_path):
    for name in ("spec.json", "spec.yaml"):
        with pytest.raises(CommandError, match="name"):
            spec_file(tmp_path, json.dumps({"name": "a"})[:-1] + ', "name": "b"}', name)
