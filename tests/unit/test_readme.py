"""The README and the page of settings keep up with the code."""

import argparse
import importlib
import re
import shlex
from pathlib import Path

from deploy import demo
from orchestrator.cli.main import MODULES
from orchestrator.serve.settings import CLIENT_VARIABLES, NODE_VARIABLES, VARIABLES

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SESSION = (ROOT / "docs" / "use" / "first_session.md").read_text(encoding="utf-8")


def test_every_setting_stands_on_its_page_and_no_other() -> None:
    page = (ROOT / "docs" / "operate" / "settings.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `([A-Z_]+)` \|", page, re.MULTILINE))
    assert listed == {*VARIABLES, *NODE_VARIABLES, *CLIENT_VARIABLES}


def test_the_table_at_the_top_is_that_of_the_first_session() -> None:
    top = README.split("```\n")[1].splitlines()
    rows = [re.split(r" {2,}", line) for line in top if line.startswith("resnet-50")]
    whole = [re.split(r" {2,}", line) for line in SESSION.splitlines() if line.startswith("resnet-50")]
    assert rows == [row[:5] for row in whole]  # without what comes after the runs
    assert len(rows) == 2
    assert top[-1] in SESSION.splitlines()
    assert re.match(r"(tensorflow|pytorch) [\d.]+ x", top[-1])


def test_what_the_demo_says_to_type_next_is_what_tbd_takes() -> None:
    following = SESSION.split("where to look next:\n")[1].split("\n```")[0].splitlines()
    assert len(following) == 4
    for line in following:
        where, tbd, command, *words = shlex.split(line, comments=True)
        assert (where, tbd) == ("TBD_DATA_DIR=.tbd", ".venv/bin/tbd")
        module = importlib.import_module(MODULES[command])
        parser = argparse.ArgumentParser()
        module.configure(parser)
        parser.parse_args(words)
    said = "\n".join(demo.next_commands(ROOT / ".tbd", demo.QUICK))
    assert all(line.split("/tbd ")[1] in said for line in following)


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 120


def test_no_placeholder_is_left() -> None:
    assert "@@" not in README + SESSION
