"""Imported series in ``tbd history``: listed, plotted and marked, beside tbd's own and never among them."""

import json
from pathlib import Path

import pytest

from orchestrator.cli.commands.analyse import history
from orchestrator.cli.main import main
from tests.support.milabench.files import META, event, lines
from tests.unit.api.api_rig import Rig
from tests.unit.api.test_history_rest import night
from tests.unit.api.test_imports_rest import send
from tests.unit.cli.test_compare_cells import RigClient

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def client(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> RigClient:
    made = RigClient(rig)
    monkeypatch.setattr(history, "look", lambda: made)
    monkeypatch.setenv("COLUMNS", "160")
    return made


def sessions(rig: Rig) -> str:
    """Three imported nights, of which one failed and the last has another PyTorch; the key of their series."""
    for day, (rate, code, torch) in enumerate(((100.0, 0, "2.6"), (90.0, 1, "2.6"), (110.0, 0, "2.7"))):
        config, _, _, *rest = lines(rates=(rate,), code=code, run_name=f"night-{day}")
        meta = event("meta", META | {"pytorch": {"torch": torch}})
        start = event("start", {"time": 1e9 + day * 86400.0})
        answer = send(rig, {"x.data": b"".join([config, meta, start, *rest])}, name="cluster-a")
        assert answer.status_code == 201, answer.text
    return str(rig.get("/imported-series")["items"][0]["key"])


def test_they_are_listed_below_tbd_s_own_and_marked(rig: Rig, client: RigClient, capsys: Capture) -> None:
    key = sessions(rig)
    night(rig, 50.0)
    assert main(["history"]) == 0
    own, _, imported = capsys.readouterr().out.partition("\n\n")
    assert key not in own
    assert key in imported
    assert "imported: milabench resnet50 from cluster-a" in imported
    assert "nothing of tbd is compared" in imported
    assert send(rig, {"y.data": b"".join(lines(name="bert"))}).status_code == 201
    assert main(["history", "--limit", "1"]) == 0
    assert "there are more" in capsys.readouterr().err
    assert main(["history", "--model", "net"]) == 0
    assert key not in capsys.readouterr().out
    assert [item["key"] for item in rig.get("/history")["items"]] == ["w" * 16]


def test_one_is_drawn_with_its_failed_night_and_what_changed(
    rig: Rig, client: RigClient, capsys: Capture, tmp_path: Path
) -> None:
    key = sessions(rig)
    figure = tmp_path / "imported.svg"
    assert main(["history", key, "--svg", str(figure)]) == 0
    shown = capsys.readouterr().out
    assert f"series {key}: imported: milabench resnet50 from cluster-a" in shown
    above, _, below = shown.partition("night (UTC)")
    assert above.count("●") >= 2
    assert "imported (milabench v1.1.0)" in below
    assert "no number: it ended with return code 1" in below
    assert "torch 2.6 → 2.7" in below
    assert "imported: milabench" in figure.read_text(encoding="utf-8")
    assert main(["history", key, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["items"]) == 3


def test_a_key_that_no_import_has_is_refused(rig: Rig, client: RigClient, capsys: Capture) -> None:
    assert main(["history", "imported-0"]) == 2
    assert "there is no imported series imported-0" in capsys.readouterr().err
