"""The README keeps up with the code."""

import re
from pathlib import Path

from orchestrator.settings import CLIENT_VARIABLES, NODE_VARIABLES, VARIABLES

README = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")


def test_every_setting_stands_in_the_readme_and_no_other() -> None:
    listed = set(re.findall(r"^\| `([A-Z_]+)` \|", README, re.MULTILINE))
    assert listed == {*VARIABLES, *NODE_VARIABLES, *CLIENT_VARIABLES}


def test_the_readme_has_no_placeholder_left() -> None:
    assert "@@" not in README
