"""The recorded logs come in through REST as runs that have ended, or are refused with the line that is wrong."""

import pytest
from fastapi.testclient import TestClient

from orchestrator.api.server import create_app
from orchestrator.db.store import SqlStore
from orchestrator.services.catalog import load_catalog
from orchestrator.services.clock import SystemClock
from orchestrator.services.context import Context
from orchestrator.settings import read_settings
from tests.replays.replay import EXPECTED, entries_of, raw
from tests.unit.api.api_rig import StandingCluster

TORN = [name for name in EXPECTED if not raw(name).endswith(b"\n")]
NO_LOGS = ["replaced"]
STATES = {None: "completed", "cancelled": "cancelled"}


@pytest.fixture(scope="module")
def http(tmp_path_factory):
    folder = tmp_path_factory.mktemp("replays")
    store = SqlStore(f"sqlite:///{folder / 'tbd.sqlite3'}")
    context = Context(store, StandingCluster(), load_catalog(), SystemClock(), lambda: None)
    with TestClient(create_app(context, read_settings({"TBD_DATA_DIR": str(folder)}))) as client:
        yield client
    store.close()


def ingested(http, name):
    return http.post("/api/v1/ingest", content=raw(name))


@pytest.mark.parametrize("name", [name for name in EXPECTED if name not in TORN + NO_LOGS])
def test_an_imported_log_is_a_run_with_the_outcome_of_its_analysis(http, name):
    answer, expected = ingested(http, name), EXPECTED[name]
    assert answer.status_code == 201, answer.text
    run = answer.json()
    kind = expected.get("failure")
    assert run["state"] == STATES.get(kind, "failed")
    assert (run["failure"] or {}).get("kind") == kind
    assert [reason["code"] for reason in run["validity"]["reasons"]] == expected["reasons"]
    assert (run["throughput"] is not None) == ("throughput" in expected)
    assert (run["indicative"] is not None) == ("indicative" in expected)


@pytest.mark.parametrize("name", ["good_gang", "killed_rank"])
def test_importing_a_log_again_is_the_same_run(http, name):
    assert ingested(http, name).json()["id"] == ingested(http, name).json()["id"]


def test_the_intervals_of_an_imported_run_are_those_of_its_log(http):
    run = ingested(http, "good_gang").json()
    wanted = sum(entry["kind"] == "interval" for entry in entries_of("good_gang"))
    answer = http.get(f"/api/v1/runs/{run['id']}/intervals", params={"limit": 1000})
    assert answer.status_code == 200, answer.text
    assert len(answer.json()["items"]) == wanted


@pytest.mark.parametrize("name", TORN)
def test_a_torn_line_is_refused_with_its_number(http, name):
    answer = ingested(http, name)
    assert answer.status_code == 400
    assert f"line {len(raw(name).splitlines())} " in answer.text


@pytest.mark.parametrize("name", NO_LOGS)
def test_what_is_no_log_is_refused(http, name):
    assert ingested(http, name).status_code in (400, 422)
