"""``tbd explain`` without a server: a run, an experiment, two of them, and what has nothing to explain."""

import json
from pathlib import Path

import pytest

from orchestrator.cli.main import main
from orchestrator.domain.runs.run import ExperimentState
from tests.unit.api.api_rig import Rig
from tests.unit.api.test_waterfall_rest import PROFILED, complete


@pytest.fixture
def runs(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Topology -> a run of the experiment "first"; of "second" there is one cell of one device."""
    made = [rig.submit(**PROFILED)["id"], rig.submit(name="second", topology="1x1", strategy="ddp", repeats=1)["id"]]
    found, _ = [complete(rig, one) for one in made]
    for one in made:
        rig.store.end_experiment(one, ExperimentState.COMPLETED, 11.0)
    rig.close()
    for name in ("TBD_SERVER", "TBD_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TBD_DATA_DIR", str(tmp_path))
    return found


def test_an_experiment_stands_for_its_only_cell_of_several_devices(
    runs: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "first"]) == 0
    of_experiment = capsys.readouterr().out
    assert "bottleneck: the exchange: 47% of the iteration" in of_experiment
    assert main(["explain", runs["2x1"], runs["2x1"]]) == 0
    both = capsys.readouterr().out
    assert both.startswith(of_experiment)
    assert "exposed exchange" in both.removeprefix(of_experiment)
    assert main(["explain", runs["2x1"], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["straggler"]["rank"] == 1
    assert main(["report", "first"]) == 0
    _, _, section = capsys.readouterr().out.partition("## Where the time of several devices goes")
    assert "| exposed exchange | +106 ms |" in section
    assert section.index("bottleneck: the exchange") < section.index("## All that was measured")


def test_what_has_one_device_is_refused_with_what_to_look_at(
    runs: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "second"]) == 2
    assert "second has no cells of several devices" in capsys.readouterr().err
    assert main(["explain", runs["1x1"]]) == 2
    assert f"tbd show {runs['1x1']} --layers" in capsys.readouterr().err
