"""``tbd parity`` where there is nothing to compute, and its table."""

from pathlib import Path

import pytest

from orchestrator.cli.main import main
from orchestrator.reports.tables import parity_table


def test_a_model_that_is_not_there_is_a_mistake_of_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["parity", "resnet50"]) == 2
    assert "there is no model 'resnet50': did you mean resnet-50?" in capsys.readouterr().err


def test_one_sample_is_too_few(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["parity", "resnet-50", "--batch", "1"]) == 2
    assert "two samples at least" in capsys.readouterr().err


def test_without_the_exact_result_nothing_is_compared(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TBD_INTERPRETERS_DIR", str(tmp_path))
    assert main(["parity", "resnet-50", "--frameworks", "mxnet"]) == 1
    assert "run `tbd frameworks install pytorch`" in capsys.readouterr().err


def test_the_table_names_the_worst_layer_what_failed_and_what_was_skipped() -> None:
    well = {
        "loss": 1e-7,
        "gradient": {"distance": 2e-6, "name": "conv1.weight"},
        "weight": {"distance": 1e-3, "name": "fc.bias"},
        "statistic": None,
        "begin": 0.0,
        "same": True,
        "problems": [],
    }
    other = well | {
        "gradient": {"distance": 0.4, "name": "conv1.bias"},
        "same": False,
        "problems": ["conv1.bias is off"],
    }
    text = parity_table.text(
        {
            "model": "m",
            "options": {"depth": 9},
            "size": "tiny",
            "batch": 4,
            "seed": 1,
            "precision": "fp32",
            "parameters": {"counted": 10, "stated": 11},
            "frameworks": {"pytorch": well, "mxnet": other, "cntk": {"same": False, "problems": ["it crashed"]}},
            "skipped": {"tensorflow": "not built"},
        },
        None,
    )
    rows = {line.split()[0]: line for line in text.splitlines()}
    assert rows["pytorch"].split()[1:4] == ["1.0e-07", "2.0e-06", "conv1.weight"]
    assert rows["pytorch"].endswith("the same")
    assert "another network" in text
    for told in ("m depth=9, size tiny", "mxnet: conv1.bias is off", "cntk: it crashed"):
        assert told in text
    for told in ("tensorflow was skipped: not built", "10 parameters"):
        assert told in text
