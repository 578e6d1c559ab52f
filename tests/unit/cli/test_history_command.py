"""``tbd history``: the list of series, the plot, the table, REST's answer, and the figure in a file."""

import json
from pathlib import Path

import pytest

from orchestrator.cli.commands.analyse import history
from orchestrator.cli.main import main
from tests.unit.api.api_rig import Rig
from tests.unit.api.test_history_rest import night, nights
from tests.unit.cli.test_compare_cells import RigClient

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def client(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> RigClient:
    made = RigClient(rig)
    monkeypatch.setattr(history, "look", lambda: made)
    monkeypatch.setenv("COLUMNS", "100")
    return made


def test_it_draws_the_nights_the_levels_and_the_borders_and_lists_them_below(
    rig: Rig, client: RigClient, capsys: Capture, tmp_path: Path
) -> None:
    nights(rig, 100.0, 6)
    nights(rig, 80.0, 3, first=6, version="2.13")
    figure = tmp_path / "history.json"
    assert main(["history", "ww", "--figure", str(figure)]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 100
    above, _, below = out.partition("night (UTC)")
    assert above.count("●") >= 3  # nights of this test are of one moment
    assert "━" in above
    assert "A  " in above
    assert "framework_version 2.12 → 2.13" in above
    assert below.count("baseline on n0 cpu:0") == 2
    assert "it coincides with framework_version 2.12" in " ".join(below.split())
    specification = json.loads(figure.read_text())
    levels, intervals, points, borders = (layer["data"]["values"] for layer in specification["layer"])
    assert [len(points), len(levels), len(borders)] == [9, 2, 1]
    assert all(bar["low"] <= bar["value"] <= bar["high"] for bar in intervals)
    assert any("framework_version 2.12" in line for line in specification["title"]["subtitle"])


def test_it_answers_json_and_takes_filters_for_a_name(rig: Rig, client: RigClient, capsys: Capture) -> None:
    night(rig, 100.0)
    assert main(["history", "--json"]) == 0
    assert [item["key"] for item in json.loads(capsys.readouterr().out)["items"]] == ["w" * 16]
    assert main(["history", "www", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["items"]) == 1
    assert main(["history", "--model", "net"]) == 0
    assert "w" * 16 in capsys.readouterr().out


def test_what_is_not_there_or_several_is_refused_with_what_there_is(
    rig: Rig, client: RigClient, capsys: Capture, tmp_path: Path
) -> None:
    assert main(["history"]) == 0
    assert "no series yet" in capsys.readouterr().err
    assert main(["history", "abc"]) == 2
    assert "there is no series for 'abc'" in capsys.readouterr().err
    night(rig, 100.0, workload="1abc")
    night(rig, 100.0, workload="1abd")
    assert main(["history", "1a"]) == 2
    told = capsys.readouterr().err
    assert "1abc" in told
    assert "1abd" in told
    assert main(["history", "1abc", "--figure", str(tmp_path / "nowhere" / "x.json")]) == 2
    assert main(["history", "1abc", "--figure", str(tmp_path / "x.gif")]) == 2
    assert "FILE.svg, FILE.png, FILE.pdf, FILE.json" in capsys.readouterr().err


def test_a_single_night_is_drawn_and_one_without_a_number_is_not(
    rig: Rig, client: RigClient, capsys: Capture, tmp_path: Path
) -> None:
    night(rig, 100.0)
    assert main(["history", "www", "--figure", str(tmp_path / "one.svg")]) == 0
    assert "●" in capsys.readouterr().out
    made = night(rig, float("nan"), workload="2")
    assert main(["history", "2"]) == 0
    shown = capsys.readouterr()
    assert made in shown.out
    assert main(["history", "2", "--figure", str(tmp_path / "none.svg")]) == 1
