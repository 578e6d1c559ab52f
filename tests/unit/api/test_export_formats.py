"""Parquet and MLPerf's log lines, read by others than who wrote them."""

import io
import json
import math
from datetime import UTC, datetime
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from orchestrator.api.exports.parquet import GROUP
from orchestrator.domain.runs.run import RunState
from orchestrator.domain.value.failure import Failure, FailureKind
from orchestrator.domain.value.measurement import METRICS
from orchestrator.services.result.export_columns import CELLS, RUNS
from tests.unit.api.api_rig import Rig, rate
from tests.unit.api.test_export_rest import lines


def table(rig: Rig, **parameters: Any) -> Any:
    """The Parquet export, as pyarrow reads it."""
    answer = rig.http.get("/api/v1/export", params={"format": "parquet"} | parameters)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/vnd.apache.parquet"
    return parquet.ParquetFile(io.BytesIO(answer.content))


def parsed(rig: Rig, **parameters: Any) -> list[dict[str, Any]]:
    """The lines of an MLPerf log, as the ruleset 6.1.0 of its compliance checker reads a line: the token, then JSON,
    of which it takes these keys (compliance_checker/mlp_parser/ruleset_610.py: parse_line, string_to_logline)."""
    answer = rig.http.get("/api/v1/export", params={"format": "mllog"} | parameters)
    assert answer.status_code == 200, answer.text
    token = ":::MLLOG "
    found = []
    for line in answer.text.splitlines():
        assert line.startswith(token)
        one = json.loads(line[len(token) :], parse_constant=pytest.fail)
        assert math.isfinite(float(one["time_ms"]))
        assert list(one) == ["namespace", "time_ms", "event_type", "key", "value", "metadata"]
        assert {"file", "lineno"} <= set(one["metadata"])
        found.append(one)
    return found


def test_parquet_has_the_columns_of_the_others_with_types_units_and_nothing_where_nothing_is(rig: Rig) -> None:
    rig.complete_all(rig.submit(labels={"team": "a"})["id"], [99.0, 100.0, 101.0])
    rig.submit(name="second")
    whole = table(rig).read()
    assert whole.column_names == [column.name for column in CELLS]
    schema = whole.schema
    assert schema.field("throughput_value").type == pyarrow.float64()
    assert schema.field("submitted_at").type == pyarrow.timestamp("us", tz="UTC")
    assert schema.field("n_runs").type == pyarrow.int64()
    assert schema.field("settled").type == pyarrow.bool_()
    assert schema.field("step_time_s").metadata[b"unit"] == b"s"
    second, first = whole.to_pylist()
    (_, same) = lines(rig)
    assert (second["throughput_value"], second["throughput_reason"]) == (None, "no run has ended yet")
    assert first["throughput_ci_low"] == same["throughput_ci_low"]
    assert first["ended_at"] == datetime(1970, 1, 1, 0, 0, 10, tzinfo=UTC)
    assert json.loads(first["labels"]) == {"team": "a"}
    assert json.loads(first["reasons"]) == same["reasons"]


def test_parquet_comes_in_row_groups_and_an_empty_one_has_its_columns(rig: Rig) -> None:
    assert table(rig).read().column_names == [column.name for column in CELLS]
    rig.submit(seed=list(range(60)), repeats=GROUP // 50)
    file = table(rig, rows="runs")
    assert file.schema_arrow.names == [column.name for column in RUNS]
    assert [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)] == [GROUP, GROUP // 5]


def test_without_pyarrow_parquet_is_refused_with_the_way_out(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.api.exports.parquet.find_spec", lambda name: None)
    answer = rig.http.get("/api/v1/export", params={"format": "parquet"})
    assert answer.status_code == 422
    assert "pip install 'tbd-orchestrator[parquet]'" in answer.json()["errors"][0]["detail"]
    assert rig.http.get("/api/v1/export").status_code == 200


def test_a_run_is_an_mlperf_log_of_its_own_namespace(rig: Rig) -> None:
    runs = rig.complete_all(rig.submit()["id"], [99.0, 100.0, 101.0])
    found = parsed(rig)
    assert list(dict.fromkeys(one["namespace"] for one in found)) == [run.id for run in runs]
    first = [one for one in found if one["namespace"] == runs[0].id]
    by_key = {one["key"]: one for one in first}
    assert by_key["submission_benchmark"]["value"] == "net"
    assert by_key["submission_platform"]["value"] == "1x1 a cpu"
    assert (by_key["global_batch_size"]["value"], by_key["seed"]["value"]) == (4, 1)
    assert by_key["lowest_numerical_precision_in_linear"]["value"] == "fp32"
    assert by_key["tracked_stats"]["value"] == {"throughput": 99.0}
    assert by_key["tracked_stats"]["metadata"]["unit"] == "images/s"
    assert (by_key["run_start"]["event_type"], by_key["run_start"]["time_ms"]) == ("INTERVAL_START", 2000)
    assert (by_key["run_stop"]["event_type"], by_key["run_stop"]["time_ms"]) == ("INTERVAL_END", 10000)
    assert by_key["run_stop"]["metadata"]["status"] == "success"
    told = by_key["tbd_run"]["value"]
    assert (told["grade"], told["workload_key"], told["throughput_ci_low"]) == ("sound", "w", 98.0)
    assert not set(METRICS) & set(told)


def test_runs_that_failed_or_never_began_are_told_as_such(rig: Rig) -> None:
    failed, *_ = rig.store.runs_of(rig.submit()["id"])
    rig.start(failed.id)
    failure = Failure(FailureKind.CRASHED, "rank 1 died")
    rig.finish(failed.id, rate(7.0), to=RunState.FAILED, failure=failure)
    by_run: dict[str, dict[str, Any]] = {}
    for one in parsed(rig):
        by_run.setdefault(one["namespace"], {})[one["key"]] = one
    ours = by_run.pop(failed.id)
    assert ours["run_stop"]["metadata"]["status"] == "aborted"
    assert "tracked_stats" not in ours
    assert ours["tbd_run"]["value"]["throughput_reason"] == "rank 1 died"
    assert all("run_start" not in keys and keys["tbd_run"]["value"]["state"] == "queued" for keys in by_run.values())


def test_mlperf_has_no_lines_of_cells(rig: Rig) -> None:
    answer = rig.http.get("/api/v1/export", params={"format": "mllog", "rows": "cells"})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/rows")
