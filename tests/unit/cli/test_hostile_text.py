"""Text that somebody else wrote obeys nobody: on a screen, in a report, in a spec file."""

import io
import json
import re

import markdown_it
import pytest

from orchestrator.cli.exits import CommandError
from orchestrator.cli.printing import streams
from orchestrator.cli.spec.spec_file import SpecFile
from orchestrator.reports.drawing import table
from orchestrator.reports.experiment_report import experiment_report
from orchestrator.services.experiment.spec_text import LONGEST
from tests.unit.api.api_rig import rate
from tests.unit.cli.test_reports import results

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
        "node": "vm\\\\x1b\\[2J&lt;script>alert(1)&lt;/script>",
        "list": ["a'b", "c&amp;d"],
        "n": 1.5,
        "stderr_tail": "a < b\n\\x1b[2J",
    }


def spec_file(tmp_path, text, name="spec.yaml"):
    path = tmp_path / name
    path.write_text(text)
    return SpecFile(str(path))


@pytest.mark.parametrize(
    "text", [BOMB, "x: &a [*a]\n", "[" * 1000, "x" * (LONGEST + 1)], ids=["bomb", "ring", "deep", "long"]
)
def test_a_file_that_would_never_end_is_refused(tmp_path, text):
    with pytest.raises(CommandError):
        spec_file(tmp_path, text)


def test_anchors_are_taken_within_reason(tmp_path):
    assert spec_file(tmp_path, "a: &a [1, 2]\nb: *a\n").spec == {"a": [1, 2], "b": [1, 2]}


def test_a_key_that_stands_twice_is_refused_in_json_as_in_yaml(tmp_path):
    for name in ("spec.json", "spec.yaml"):
        with pytest.raises(CommandError, match="name"):
            spec_file(tmp_path, json.dumps({"name": "a"})[:-1] + ', "name": "b"}', name)


EVIL = "<script>alert(1)</script>![i](http://evil.example/p.png)[l](http://evil.example) *bold* _it_ `c` | \\| a_b"


def with_evil(value):
    """Every text of an answer, and what somebody else wrote at its end."""
    if isinstance(value, dict):
        return {key: with_evil(one) for key, one in value.items()}
    if isinstance(value, list):
        return [with_evil(one) for one in value]
    return value + EVIL if isinstance(value, str) else value


def test_no_text_of_a_comparison_is_markup_in_a_report(rig):
    material = results(rig, [rate(10.0), rate(10.1)], [rate(20.0), rate(20.2)], labels={"team": EVIL})
    (found,) = material["comparisons"]
    found["items"] = [with_evil(one) | {"verdict": one["verdict"]} for one in found["items"]]
    found["scope"] = found["baseline"] = EVIL
    report = experiment_report(**material)
    assert report.count("alert(1)") > 5
    html = markdown_it.MarkdownIt("commonmark", {"html": True}).enable("table").render(report.split("## Reproduce")[0])
    assert "alert(1)" in html
    for tag in ("<script", "<img", "<a ", "<em>bold", "<em>it", "<code>c<"):
        assert tag not in html
    rows = re.findall("<tr>.*?</tr>", html, re.DOTALL)
    widths = {len(re.findall("<t[hd]", row)) for row in rows if "alert(1)" in row}
    assert len(widths) == 1


@pytest.mark.parametrize("tail", ["<script>", "a\n```\n<script>\n````", "* x\n\n\n# <script>"])
def test_what_a_program_printed_stays_in_its_block_of_code(tail):
    html = markdown_it.MarkdownIt("commonmark").render(f"* Said:\n\n{table.code_block(tail, '  ')}\n* Next\n")
    assert "<script" not in html
    assert html.count("<li>") == 2
    assert html.count("<pre>") == 1
