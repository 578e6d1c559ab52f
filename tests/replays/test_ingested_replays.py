"""The recorded logs come in through REST as runs that have ended, or are refused with the line that is wrong."""

import pytest
from fastapi.testclient import TestClient

from orchestrator.api.server import create_app
from orchestrator.db.store import SqlStore
from orchestrator.serve.settings import read_settings
from orchestrator.services.clock import SystemClock
from orchestrator.services.context import Context
from orchestrator.services.facts.catalog import load_catalog
from tests.replays.replay import EXPECTED, entries_of, raw
from tests.unit.api.api_rig import StandingCluster

NO_LOGS = ["replaced"]
STATES = {None: "completed", "cancelled": "cancelled"}


@pytest.fixture(scope="module")
def http(tmp_path_factory):
    folder = tmp_path_factory.mktemp("replays")
    store = SqlStore(f"sqlite:///{folder / 'tbd.sqlite3'}")
    context = Context(store, StandingCluster(), load_catalog(), SystemClock(), lambda: None)
    app = create_app(context, read_settings({"TBD_DATA_DIR": str(folder)}))
    with TestClient(app, "http://localhost", headers={"Content-Type": "application/jsonl"}) as client:
        yield client
    store.close()


def ingested(http, name):
    return http.post("/api/v1/ingest", content=raw(name))


@pytest.mark.parametrize("name", [name for name in EXPECTED if name not in NO_LOGS])
def test_an_imported_log_is_a_run_with_the_outcome_of_its_analysis(http, name):
    answer, expected = ingested(http, name), EXPECTED[name]
    assert answer.status_code == 201, answer.text
    run = answer.json()
    kind = expected.get("failure")
    assert run["state"] == STATES.get(kind, "failed")
    assert (run["failure"] or {}).get("kind") == kind
    assert [reason["code"] for reason in run["validity"]["reasons"]] == expected["reasons"]
    assert (run["throughput"] is not None) == ("throughput" in expected)
    assert run["validity"]["grade"] == expected["grade"]


@pytest.mark.parametrize("name", ["good_gang", "killed_rank"])
def test_importing_a_log_again_is_the_same_run(http, name):
    assert ingested(http, name).json()["id"] == ingested(http, name).json()["id"]


def test_several_logs_are_runs_of_one_experiment_and_what_they_differ_in_is_its_axis(http):
    first = raw("good_sleep")
    again = first.replace(b'"repetition":1', b'"repetition":2')
    other = first.replace(b'"seed":1,', b'"seed":2,')
    run = http.post("/api/v1/ingest?name=together", content=b"\n".join([first, again, other])).json()
    experiment = http.get(f"/api/v1/experiments/{run['experiment_id']}").json()
    assert (experiment["state"], experiment["spec"]["name"]) == ("completed", "together")
    assert (experiment["spec"]["seed"], experiment["spec"]["repeats"]) == ([1, 2], 2)
    rows = http.get(f"/api/v1/experiments/{run['experiment_id']}/results").json()["items"]
    assert [(row["axes"]["seed"], row["n_runs"]) for row in rows] == [(1, 2), (2, 1)]
    once_more = http.post("/api/v1/ingest", content=b"\n".join([first, again, other])).json()
    assert once_more["id"] == run["id"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ((b"", b""), "log 2 of 2 is there twice"),
        ((b'"size":"tiny"', b'"size":"tiny" '), "is there twice"),
        ((b'"attempt_id":"', b'"attempt_id":"x'), "repetition 1 of one cell"),
        ((b'"timeout_s":', b'"timeout_s":9'), "timeout_s is no axis"),
    ],
)
def test_logs_that_are_no_one_experiment_are_refused(change, said, http):
    first = raw("good_sleep")
    answer = http.post("/api/v1/ingest", content=first + b"\n" + first.replace(*change))
    assert answer.status_code == 422
    assert said in answer.text


def test_the_intervals_of_an_imported_run_are_those_of_its_log(http):
    run = ingested(http, "good_gang").json()
    wanted = sum(entry["kind"] == "interval" for entry in entries_of("good_gang"))
    answer = http.get(f"/api/v1/runs/{run['id']}/intervals", params={"limit": 1000})
    assert answer.status_code == 200, answer.text
    assert len(answer.json()["items"]) == wanted


def test_a_torn_last_line_is_no_entry(http):
    run = ingested(http, "cut_in_a_line").json()
    assert run["id"] == ingested(http, "cut_at_a_line").json()["id"]
    assert "without log_closed" in run["failure"]["message"]


def test_a_line_torn_in_the_middle_of_a_log_is_refused_with_its_number(http):
    lines = raw("good_gang").splitlines(keepends=True)
    lines[100] = lines[100][: len(lines[100]) // 2] + b"\n"
    answer = http.post("/api/v1/ingest", content=b"".join(lines))
    assert answer.status_code == 400
    assert "line 101 " in answer.text


@pytest.mark.parametrize("name", NO_LOGS)
def test_what_is_no_log_is_refused(http, name):
    assert ingested(http, name).status_code in (400, 422)


def test_the_iteration_of_two_recorded_ranks_is_taken_apart_and_one_run_accuses_nobody(http):
    run = ingested(http, "good_gang").json()
    answer = http.get(f"/api/v1/runs/{run['id']}/waterfall")
    assert answer.status_code == 200, answer.text
    found = answer.json()
    parts = {part["name"]: part["seconds"] for part in found["parts"]}
    assert sum(parts.values()) == pytest.approx(found["iteration_s"])
    # It computes by waiting 20 ms, and its adapter exchanges nothing.
    assert parts["computing"] == pytest.approx(found["iteration_s"])
    assert (found["straggler"]["rank"], found["straggler"]["named"]) in ((0, False), (1, False))
    assert found["straggler_reason"] == "one run does not tell a slow rank from noise"
    assert found["missing"][0]["what"].startswith("there is no cell of one device")
