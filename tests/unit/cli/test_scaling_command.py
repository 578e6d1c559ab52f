"""``tbd scaling EXPERIMENT``: the table, REST's answer, and the figure in a file."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from orchestrator.cli.commands.analyse import scaling
from orchestrator.cli.main import main
from tests.unit.api.api_rig import Rig
from tests.unit.api.test_comparisons_rest import measured
from tests.unit.api.test_scaling_rest import TOPOLOGIES
from tests.unit.cli.test_compare_cells import RigClient


def test_it_prints_the_table_writes_the_figure_and_answers_json(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(scaling, "look", lambda: RigClient(rig))
    experiment, figure = measured(rig, TOPOLOGIES, by="topology"), tmp_path / "scaling.svg"
    assert main(["scaling", experiment, "--figure", str(figure)]) == 0
    shown = capsys.readouterr()
    assert "weak scaling" in shown.out + shown.err
    assert "1 (baseline)" in shown.out
    assert ElementTree.parse(figure).getroot().tag.endswith("svg")
    assert main(["scaling", experiment, "--json"]) == 0
    assert [item["topology"] for item in json.loads(capsys.readouterr().out)["items"]] == list(TOPOLOGIES)
    assert main(["scaling", experiment, "--figure", str(tmp_path / "nowhere" / "x.svg")]) == 2
