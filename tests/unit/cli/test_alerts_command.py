"""``tbd alerts replay``: what the gate would have tried of a CSV file and of imported points; files that are wrong."""

import json
from pathlib import Path

import numpy as np
import pytest

from orchestrator.cli.commands.analyse import alerts
from orchestrator.cli.main import main
from tests.contract import test_nightly
from tests.support.milabench.files import event, lines
from tests.support.schedule_rig import Server
from tests.unit.api.api_rig import Rig
from tests.unit.api.test_imports_rest import send
from tests.unit.cli.test_compare_cells import RigClient

Capture = pytest.CaptureFixture[str]
HEADER = "series,at,place,subject,rate"


def rates_of(nights: int = 40, drop: float = 0.05, since: int = 25) -> list[float]:
    noise = np.random.default_rng(4).standard_normal(nights)
    return [100.0 * (1 - drop * (night >= since)) * (1 + 0.005 * noise[night]) for night in range(nights)]


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """A series that gets slower with an update, three runs a night around midnight, and one that does not."""
    rows = [
        f"{series},{day + 1767225600 + 86400 * night + 1800 * run},vm cpu:0,{'v2' if night >= 25 else 'v1'},{rate}"
        for series, day, drop in (("resnet", 82800, 0.05), ('"bert, large"', 0, 0.0))
        for night, rate in enumerate(rates_of(drop=drop))
        for run in range(3)
    ]
    path = tmp_path / "nights.csv"
    path.write_text("\n".join([HEADER, *rows]))
    return path


def test_a_drop_is_told_with_the_night_in_which_it_could_be_told(history: Path, capsys: Capture) -> None:
    assert main(["alerts", "replay", str(history), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["series"], found["kind"], found["at"]) == ("resnet", "step", "2026-01-26T23:00:00Z")
    assert "2026-01-27T23:00:00Z" <= found["called_at"] <= "2026-01-28T23:00:00Z"
    assert found["difference"] == pytest.approx(-0.05, abs=0.01)
    assert main(["alerts", "replay", str(history)]) == 0
    told = capsys.readouterr().out
    assert "v1 → v2" in told
    last = "2 series, 80 sessions: 1 would have been tried side by side; drifts, which are not: 0."
    assert last in " ".join(told.split())


def test_times_may_be_of_iso_8601_and_columns_in_any_order(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "nights.csv"
    rows = [
        f"{rate},{'2026%02d%02d' if night % 2 else '2026-%02d-%02dT02:00:00+01:00'},s,,,x"
        % (1 + night // 28, 1 + night % 28)
        for night, rate in enumerate(rates_of())
    ]
    path.write_text("\r\n".join(["rate,at,series,place,subject,note", *rows]))
    assert main(["alerts", "replay", str(path), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["at"] in ("2026-01-26T00:00:00Z", "2026-01-26T01:00:00Z")


def test_what_was_imported_of_milabench_is_replayed(rig: Rig, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alerts, "look", lambda: RigClient(rig))
    assert main(["alerts", "replay", "milabench", "--json"]) == 0
    told = capsys.readouterr()
    assert (json.loads(told.out), "no points were imported yet" in told.err) == ([], True)
    for night, rate in enumerate(rates_of(20, since=15)):
        config, meta, _, *rest = lines(rates=(rate,), run_name=f"night-{night}")
        start = event("start", {"time": 1e9 + night * 86_400.0})
        assert send(rig, {"x.data": b"".join([config, meta, start, *rest])}, name="a").status_code == 201
    assert main(["alerts", "replay", "milabench", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["series"][:9], found["kind"]) == ("imported-", "step")
    assert main(["alerts", "replay", "milabench"]) == 0
    assert "resnet50 (imported-" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "1: the first line has to name the columns series, at, place, subject, rate: there is no series"),
        (b"series,at,place,rate\n", "1: the first line has to name the columns"),
        (b"series,at,place,subject,rate,at\n", "1: the first line has to name the columns"),
        (HEADER.encode(), "1: there is no row"),
        (HEADER.encode() + b"\ns,0,p,v,1\n\ns,0,p,v,\n", "4: rate is ''"),
        (HEADER.encode() + b"\ns,0,p,v,nan\n", "2: rate is 'nan'"),
        (HEADER.encode() + b"\ns,0,p,v,-1\n", "2: rate is '-1'"),
        (HEADER.encode() + b"\ns,0,p,v,1e999\n", "2: rate is '1e999'"),
        (HEADER.encode() + b"\ns,yesterday,p,v,1\n", "2: at is 'yesterday'"),
        (HEADER.encode() + b"\ns,-5,p,v,1\n", "2: at is '-5'"),
        (HEADER.encode() + b"\ns,9999999999999,p,v,1\n", "2: at is '9999999999999'"),
        (HEADER.encode() + b"\n,0,p,v,1\n", "2: series is empty"),
        (HEADER.encode() + b"\ns\x1b[2J,0,p,v,1\n", "2: series is no name"),
        (HEADER.encode() + b"\n" + b"s" * 301 + b",0,p,v,1\n", "2: series is no name: more than 300"),
        (HEADER.encode() + b"\ns,0,p,v\n", "2: there are 4 values for 5 columns"),
        (HEADER.encode() + b"\n" + b"s" * 20000, "2: the line has more than"),
        (HEADER.encode() + b'\ns,0,p,v,"1\n', "2: this is no line of a CSV file"),
        (HEADER.encode() + b"\ns,0,p,v,\xff\n", "2: this is not UTF-8"),
        (None, " No such file or directory"),
    ],
)
def test_a_history_that_is_wrong_is_told_by_file_and_line(
    content: bytes | None, told: str, tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "nights.csv"
    if content is not None:
        path.write_bytes(content)
    assert main(["alerts", "replay", str(path)]) == 2
    assert f"{path}:{told}" in capsys.readouterr().err


def test_three_nights_tell_nothing(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "nights.csv"
    path.write_text("\n".join([HEADER, *(f"s,{86400 * night},p,v,{100 - 50 * (night > 1)}" for night in range(3))]))
    assert main(["alerts", "replay", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_cells_of_which_a_drop_is_not_seen_are_listed_with_what_it_takes_to_see_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    server = Server(f"sqlite:///{tmp_path / 'tbd.sqlite3'}", "2026-11-01 12:00")
    server.add(spec=test_nightly.TWICE)
    for day, noise in enumerate(0.01 * np.random.default_rng(5).standard_normal(9), start=2):
        test_nightly.night(server, day, [100.0 * float(np.exp(noise + run)) for run in (-0.02, 0.02)])
    server.close()
    monkeypatch.delenv("TBD_SERVER", raising=False)
    monkeypatch.setenv("TBD_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["alerts", "--blind", "1%", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["schedule"], found["n_nights"], found["runs"]) == ("nightly", 9, 2.0)
    assert 0.02 < found["smallest_drop_ratio"] < 0.05
    assert main(["alerts", "--blind", "1%"]) == 0
    assert "runs a night: " in capsys.readouterr().out
    assert main(["alerts", "--blind", "20%"]) == 0
    assert "within 3 nights in 9 of 10 cases" in capsys.readouterr().out
    for wrong in ("2", "0%", "100%", "nan%", "much"):
        with pytest.raises(SystemExit, match="2"):
            main(["alerts", "--blind", wrong])
        assert "write it in per cent, such as 2%" in capsys.readouterr().err
