"""The README and the page of settings keep up with the code."""

import re
from pathlib import Path

from orchestrator.settings import CLIENT_VARIABLES, NODE_VARIABLES, VARIABLES

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_setting_stands_on_its_page_and_no_other() -> None:
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `([A-Z_]+)` \|", page, re.MULTILINE))
    assert listed == {*VARIABLES, *NODE_VARIABLES, *CLIENT_VARIABLES}


def test_the_table_at_the_top_is_that_of_the_first_session() -> None:
    before, session = README.split("## A first session")
    table = before.split("```\n")[1]
    rows = re.findall(r"^(\S+)  (\S+) +(\d+) +(\S+ ± \S+) +(\d+)$", table, re.MULTILINE)
    assert len(rows) == 4
    for model, framework, batch, rate, runs in rows:
        assert re.search(rf"^{model}  {framework} +{batch}  {framework} +{rate} +{runs} ", session, re.MULTILINE)
    compared = [line for line in table.splitlines() if line.startswith("batch ")]
    assert compared == [line for line in session.splitlines() if re.match(r"batch \d+: ", line)]


def test_the_readme_has_no_placeholder_left() -> None:
    assert "@@" not in README
