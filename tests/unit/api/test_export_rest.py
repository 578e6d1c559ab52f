"""Exports: lines, columns, formats; and that nothing is left out without a word."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text as sql

from orchestrator.api.exports import tables
from orchestrator.domain.runs.run import RunState
from orchestrator.domain.value.failure import Failure, FailureKind
from orchestrator.domain.value.measurement import METRICS
from orchestrator.services.result.export_columns import CELLS, RUNS, Column, Kind, finite
from tests.unit import builders
from tests.unit.api.api_rig import Rig, rate

ROOT = Path(__file__).resolve().parents[3]


def lines(rig: Rig, **parameters: Any) -> list[dict[str, Any]]:
    """The lines of a JSON export."""
    answer = rig.http.get("/api/v1/export", params={"format": "jsonl"} | parameters)
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def cells(rig: Rig, **parameters: Any) -> list[dict[str, str]]:
    """The same of a CSV export, by a reader that knows nothing of ours."""
    answer = rig.http.get("/api/v1/export", params=parameters)
    assert answer.status_code == 200, answer.text
    return list(csv.DictReader(io.StringIO(answer.text, newline="")))


def cell_of(value: Any, kind: Kind = Kind.TEXT) -> str:
    """What CSV makes of a value."""
    return tables._cell(Column("x", kind, "", lambda line: None), value)


def test_a_cell_is_a_line_with_its_axes_its_number_and_where_it_comes_from(rig: Rig) -> None:
    made = rig.submit(labels={"team": "a"})
    rig.complete_all(made["id"], [99.0, 100.0, 101.0])
    (line,) = lines(rig)
    (row,) = rig.get("/results")["items"]
    assert list(line) == [column.name for column in CELLS]
    for field, value in row["throughput"].items():
        assert line[f"throughput_{field}"] == value
    for axis in ("model", "framework", "topology", "per_device_batch_size", "seed", "options"):
        assert line[axis] == row["axes"][axis]
    assert (line["experiment_id"], line["labels"], line["owner"]) == (made["id"], {"team": "a"}, "local")
    assert (line["n_runs"], line["n_used"], line["grade"]) == (3, 3, "sound")
    assert (line["workload_key"], line["rig_key"], line["device_models"]) == ("w", "r", ["a cpu"])
    assert line["submitted_at"] == made["created_at"]
    assert (line["started_at"], line["ended_at"]) == ("1970-01-01T00:00:02.000000Z", "1970-01-01T00:00:10.000000Z")


def test_a_cell_without_a_number_has_its_reason(rig: Rig) -> None:
    rig.submit()
    broken = rig.submit(name="second", repeats=1)
    (run,) = rig.store.runs_of(broken["id"])
    rig.start(run.id)
    rig.finish(run.id, rate(5.0, builders.REPLICAS_DIFFER))
    newest, oldest = lines(rig)
    assert (newest["grade"], newest["throughput_value"]) == ("broken", None)
    assert newest["throughput_reason"] == "the weights of the ranks differ"
    assert newest["validity_reasons"][0]["code"] == "replicas_differ"
    assert (oldest["throughput_value"], oldest["throughput_reason"]) == (None, "no run has ended yet")
    assert set(oldest["reasons"]) == set(METRICS)


def test_every_metric_has_a_value_or_a_reason(rig: Rig) -> None:
    rig.complete_all(rig.submit()["id"], [99.0, 100.0, 101.0])
    for line in (*lines(rig), *lines(rig, rows="runs")):
        without = {metric for metric in METRICS if metric != "throughput" and line[metric] is None}
        assert set(line["reasons"]) == without
        assert line["reasons"]["power_w"] == "a CPU device has no power reading"


def test_runs_are_lines_in_the_order_of_their_repetitions_with_how_they_ended(rig: Rig) -> None:
    runs = rig.store.runs_of(rig.submit()["id"])
    rig.start(runs[0].id)
    rig.finish(runs[0].id, rate(100.0))
    rig.start(runs[1].id)
    failure = Failure(FailureKind.CRASHED, "rank 1 died")
    rig.finish(runs[1].id, rate(7.0), to=RunState.FAILED, failure=failure)
    found = lines(rig, rows="runs")
    assert list(found[0]) == [column.name for column in RUNS]
    assert [line["repetition"] for line in found] == [1, 2, 3]
    assert [line["state"] for line in found] == ["completed", "failed", "queued"]
    assert [line["throughput_value"] for line in found] == [100.0, None, None]
    assert [line["is_counted"] for line in found] == [True, False, False]
    assert found[0]["throughput_reason"] is None
    assert (found[1]["failure_kind"], found[1]["throughput_reason"]) == ("crashed", "rank 1 died")
    assert found[2]["throughput_reason"] == "the run is queued"


def test_filters_choose_as_they_do_for_results(rig: Rig) -> None:
    first = rig.submit(labels={"team": "a"})
    rig.submit(name="second", framework="tensorflow")
    rig.complete_all(first["id"], [99.0, 100.0, 101.0])
    assert len(lines(rig)) == 2
    for chosen in ({"framework": "pytorch"}, {"label": "team=a"}, {"experiment": first["id"]}, {"series": "w"}):
        assert [line["experiment_id"] for line in lines(rig, **chosen)] == [first["id"]], chosen
    assert lines(rig, gpu_model="h100") == lines(rig, series="none") == lines(rig, owner="ada") == []


def test_since_and_until_are_times_of_submission(rig: Rig) -> None:
    first, second = rig.submit(), rig.submit(name="second")
    assert [line["experiment_name"] for line in lines(rig, since=second["created_at"])] == ["second"]
    assert [line["experiment_name"] for line in lines(rig, until=second["created_at"])] == ["first"]
    assert lines(rig, until=first["created_at"]) == []
    assert rig.http.get("/api/v1/export", params={"since": "yesterday"}).status_code == 422


def test_what_is_wrong_is_answered_before_the_file_begins(rig: Rig) -> None:
    assert rig.http.get("/api/v1/export", params={"experiment": "exp_none"}).status_code == 404
    assert rig.http.get("/api/v1/export", params={"format": "xlsx"}).status_code == 422


def test_csv_is_read_by_others_as_it_was_written(rig: Rig) -> None:
    rig.complete_all(rig.submit(labels={"note": 'a "b", c'})["id"], [99.0, 100.0, 101.0])
    answer = rig.http.get("/api/v1/export")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8; header=present"
    assert answer.headers["content-disposition"] == 'attachment; filename="tbd-export.csv"'
    assert answer.text.splitlines(keepends=True)[0].endswith("\r\n")
    (row,), (line,) = cells(rig), lines(rig)
    assert list(row) == list(line)
    assert float(row["throughput_ci_low"]) == line["throughput_ci_low"]
    assert json.loads(row["labels"]) == {"note": 'a "b", c'}
    assert row["fabric"] == ""
    assert row["ended_at"] == line["ended_at"]


def test_an_empty_export_has_its_head(rig: Rig) -> None:
    assert rig.http.get("/api/v1/export").text.count("\r\n") == 1
    assert rig.http.get("/api/v1/export", params={"format": "jsonl"}).text == ""


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "＝1", "'quoted"])  # noqa: RUF001
def test_text_that_a_spreadsheet_would_compute_is_text(text: str) -> None:
    (cell,) = next(csv.reader(io.StringIO(cell_of(text), newline="")))
    assert cell == f"'{text}"


def test_numbers_stay_numbers_and_plain_text_stays_as_it_is() -> None:
    assert [cell_of(value, Kind.NUMBER) for value in (-1.5, 1e-7, float("nan"), float("inf"))] == [
        "-1.5",
        "1e-07",
        "NaN",
        "Infinity",
    ]
    assert cell_of(-3, Kind.INTEGER) == "-3"
    assert cell_of(False, Kind.TRUTH) == "false"
    assert [cell_of("a b"), cell_of(""), cell_of(None), cell_of('a"b')] == ["a b", '""', "", '"a""b"']
    assert finite(float("-inf")) == "-Infinity"


def test_a_damaged_row_is_a_line_that_says_so(rig: Rig) -> None:
    rig.complete_all(rig.submit()["id"], [99.0, 100.0, 101.0])
    bad = rig.submit(name="second", repeats=1)
    rig.store.database.write(
        lambda connection: connection.execute(
            sql("UPDATE run SET plan = '{}' WHERE experiment_id = :id"), {"id": bad["id"]}
        )
    )
    damaged, whole = lines(rig)
    assert (damaged["experiment_id"], damaged["model"]) == (bad["id"], None)
    assert damaged["damaged"].startswith("run run_")
    assert f"tbd rm {bad['id']}" in damaged["damaged"]
    assert (whole["damaged"], whole["throughput_value"]) == (None, pytest.approx(100.0, rel=1e-4))
    assert len(cells(rig)) == 2


def test_more_cells_than_a_part_holds_all_come_once_and_in_order(rig: Rig) -> None:
    rig.submit(seed=list(range(100)), repeats=1)
    assert [line["seed"] for line in lines(rig)] == list(range(100))


def listed() -> list[str]:
    """The rows of the page's table: every column, in order; the ends of intervals go with their metric."""
    every = {column.name: column for column in (*RUNS[:14], *CELLS, *RUNS)}
    ends = {f"{metric}{end}" for metric in METRICS for end in ("_ci_low", "_ci_high")} - {
        "throughput_ci_low",
        "throughput_ci_high",
    }
    of = [{column.name for column in columns} for columns in (CELLS, RUNS)]
    found = []
    for name, column in every.items():
        if name not in ends:
            where = "both" if name in of[0] & of[1] else "cells" if name in of[0] else "runs"
            found.append(f"| `{name}` | {where} | {column.kind} | {column.unit or ''} | {column.text} |")
    return found


def test_the_page_lists_every_column_in_its_order() -> None:
    page = (ROOT / "docs" / "use" / "export.md").read_text(encoding="utf-8")
    assert [line for line in page.splitlines() if line.startswith("| `") and line.count("|") == 6] == listed()
