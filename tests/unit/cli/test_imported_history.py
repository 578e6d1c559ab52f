"""Imported series in ``tbd history``: listed, plotted and marked; compared among themselves."""

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
    return str(rig.get("/history", series="imported-")["items"][0]["key"])


def test_they_are_listed_with_tbd_s_own_and_marked(rig: Rig, client: RigClient, capsys: Capture) -> None:
    key = sessions(rig)
    night(rig, 50.0)
    assert main(["history"]) == 0
    own, imported = capsys.readouterr().out.splitlines()[2:4]
    assert own.startswith("w" * 16)
    assert imported.startswith(key)
    assert "imported: milabench resnet50 from cluster-a" in imported
    assert main(["history", "--limit", "1"]) == 0
    assert "there are more" in capsys.readouterr().err
    assert main(["history", "--model", "net"]) == 0
    assert key not in capsys.readouterr().out


def test_one_is_drawn_with_its_failed_night_and_what_changed(
    rig: Rig, client: RigClient, capsys: Capture, tmp_path: Path
) -> None:
    key = sessions(rig)
    figure = tmp_path / "imported.json"
    assert main(["history", key, "--figure", str(figure)]) == 0
    shown = capsys.readouterr().out
    assert f"series {key}: imported: milabench resnet50 from cluster-a" in shown
    above, _, below = shown.partition("night (UTC)")
    assert above.count("●") >= 2
    assert "disturbed (imported)" in below
    assert "no number: it ended with return code 1" in below
    assert "torch 2.6 → 2.7" in below
    assert "imported: milabench" in figure.read_text(encoding="utf-8")
    found = rig.get(f"/history/{key}")
    assert [one["source"] for one in found["items"]] == ["milabench v1.1.0"] * 3
    assert [(one["grade"], one["level"]["value"]) for one in found["baselines"]] == [
        ("disturbed", pytest.approx(100.0)),
        ("disturbed", pytest.approx(110.0)),
    ]
    newest = rig.get(f"/history/{key}", limit=1)
    assert ([one["experiment_name"] for one in newest["items"]], newest["n_left_out"]) == (["night-2"], 2)
