"""``tbd predict`` and ``tbd netbench --fit``: what they print, and files that are wrong."""

import json
from pathlib import Path

import pytest

from orchestrator.cli.main import main
from tests.unit.analysis.test_s_sgd import FOLDER

TRACE, LOG = str(FOLDER / "googlenet_layers_2nodes_10gbe.csv"), str(FOLDER / "allreduce_2nodes.csv")
HEADER = "layer,elements,backward_us,allreduce_us"


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    assert main([*words, "--json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_predictions_say_what_their_times_come_from(capsys: pytest.CaptureFixture[str]) -> None:
    told = ("times_from", "measured_beside", "beyond_measured_sizes", "algorithm")
    cases = {
        (): ("trace", "training", 0, None),
        ("--bucket", "25MiB", "--first-bucket", "1MiB"): ("fit of the trace", "training", 2, None),
        ("--exchange", LOG, "--beside", "idle"): ("log", "idle", 11, None),
        ("--nodes", "2", "--to", "4"): ("fit of the trace", "training", 0, "ring"),
    }
    for words, expected in cases.items():
        found = answer(capsys, "predict", "--trace", TRACE, *words)
        assert tuple(found[name] for name in told) == expected
        assert main(["predict", "--trace", TRACE, *words]) == 0
        assert f"{1e3 * float(str(found['exposed_s'])):.1f} ms" in capsys.readouterr().out


def test_a_fit_has_segments_and_its_errors(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "netbench", "--fit", LOG)
    segments = found["segments"]
    assert isinstance(segments, list)
    assert set(segments[0]) == {"from_bytes", "to_bytes", "latency_s", "bytes_per_s"}
    assert [one["bytes_per_s"] for one in segments].count(None) == 1
    assert main(["netbench", "--fit", LOG]) == 0
    assert "2.16 % at 266 sizes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "1: the first line has to name"),
        (b"layer,elements,backward_us\n1,4,1\n", "1: the first line has to name the columns"),
        (HEADER.encode() + b",layer\n", "1: the first line has to name the columns"),
        (HEADER.encode(), "1: there is no row"),
        (HEADER.encode() + b"\n1,4,1,1\n\n1,8,1,1\n", "4: layer 1 is on line 2 already"),
        (HEADER.encode() + b"\n1,4,nan,1\n", "2: backward_us is 'nan'"),
        (HEADER.encode() + b"\n1,4,1,-1\n", "2: allreduce_us is '-1'"),
        (HEADER.encode() + b"\n1,4.5,1,1\n", "2: elements is 4.5"),
        (HEADER.encode() + b"\n1,4,1,1e99\n", "2: allreduce_us is '1e99'"),
        (HEADER.encode() + b"\n1,4,1," + b"9" * 5000, "2: allreduce_us is '999"),
        (HEADER.encode() + b"\n1,4," + b"9" * 20000, "2: the line has more than"),
        (HEADER.encode() + b"\n1,4,1\n", "2: there are 3 values for 4 columns"),
        (HEADER.encode() + b'\n1,4,1,"1\n', "2: this is no line of a CSV file"),
        (HEADER.encode() + b"\n1,4,1,\xff\n", "2: this is not UTF-8"),
        (HEADER.encode() + b"\n1,0,1,1\n", " no layer of the trace has elements"),
        (None, " No such file or directory"),
    ],
)
def test_a_trace_that_is_wrong_is_told_by_file_and_line(
    content: bytes | None, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "trace.csv"
    if content is not None:
        path.write_bytes(content)
    assert main(["predict", "--trace", str(path)]) == 2
    assert f"{path}:{told}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("rows", "told"),
    [("4,1\n", "2: there is one size only"), ("4,1\n8,0\n", "3: latency_us is 0"), ("4,1\n4,2", "3: bytes")],
)
def test_a_log_that_is_wrong_is_told_likewise(
    rows: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log.csv"
    path.write_text("bytes,latency_us\n" + rows)
    for words in (["netbench", "--fit", str(path)], ["predict", "--trace", TRACE, "--exchange", str(path)]):
        assert main(words) == 2
        assert f"{path}:{told}" in capsys.readouterr().err


def test_twenty_thousand_layers_are_no_trouble(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("\n".join([HEADER, *(f"{layer},{25 * layer},1.5,{100 + layer}" for layer in range(1, 20_001))]))
    found = answer(capsys, "predict", "--trace", str(path), "--bucket", "25MiB", "--nodes", "2", "--to", "8")
    assert len(found["exchange_bytes"]) > 700  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--to", "4"], "--to goes with --nodes only"),
        (["--first-bucket", "1MiB"], "--first-bucket goes with --bucket only"),
        (["--bucket", "9", "--by", "horovod", "--first-bucket", "9"], "--first-bucket is DDP's"),
        (["--nodes", "2", "--to", "1000000"], "1000000 nodes"),
        (["--nodes", "1", "--to", "2"], "1 nodes"),
    ],
)
def test_options_that_make_no_sense_are_usage_errors(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", "--trace", TRACE, *words]) == 2
    assert told in capsys.readouterr().err
