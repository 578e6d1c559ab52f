"""Logs that say what cannot be are refused with the entry that is wrong, nothing of them is stored, and they spoil no
list; the analysis finds the same in a log that came another way."""

import copy
import json

import pytest
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.api.server import create_app
from orchestrator.db.store import SqlStore
from orchestrator.domain.value.failure import FailureKind
from orchestrator.serve.settings import read_settings
from orchestrator.services.clock import SystemClock
from orchestrator.services.context import Context
from orchestrator.services.facts.catalog import load_catalog
from tests.replays.replay import analysed, entries_of
from tests.unit.api.api_rig import StandingCluster

LISTS = ["experiments", "runs", "results", "observations", "netbench", "calibrations"]
GOOD = entries_of("good_sleep")
INTERVALS = [n for n, entry in enumerate(GOOD) if entry["kind"] == "interval"]


@pytest.fixture(scope="module")
def http(tmp_path_factory):
    folder = tmp_path_factory.mktemp("impossible")
    store = SqlStore(f"sqlite:///{folder / 'tbd.sqlite3'}")
    context = Context(store, StandingCluster(), load_catalog(), SystemClock(), lambda: None)
    app = create_app(context, read_settings({"TBD_DATA_DIR": str(folder)}))
    with TestClient(app, "http://localhost", raise_server_exceptions=False) as client:
        yield client
    store.close()


def ingested(http, entries):
    lines = "".join(json.dumps(entry) + "\n" for entry in entries) if isinstance(entries, list) else entries
    return http.post("/api/v1/ingest", content=lines, headers={"Content-Type": "application/jsonl"})


def lists_answer(http):
    return {path: http.get(f"/api/v1/{path}").status_code for path in LISTS} == dict.fromkeys(LISTS, 200)


def changed(change):
    entries = copy.deepcopy(GOOD)
    change(entries)
    return entries


def of_all_intervals(name, falsify):
    def change(entries):
        for index in INTERVALS:
            entries[index]["data"][name] = falsify(entries[index]["data"][name])

    return change


def setting(index, *path, value):
    def change(entries):
        place = entries[index]
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    return change


MIDDLE = INTERVALS[40]
PLAN = ("data", "job", "plan")
IMPOSSIBLE = {
    "durations of no length": of_all_intervals("duration_s", lambda _: 1e-320),
    "durations longer than the clock": of_all_intervals("duration_s", lambda seconds: seconds * 1000),
    "another unit of work": of_all_intervals("work", lambda work: {"images": work["samples"]}),
    "work without a unit": of_all_intervals("work", lambda work: work["samples"]),
    "infinite work": of_all_intervals("work", lambda work: {"samples": 1e300}),
    "t is no number": setting(MIDDLE, "t", value="NaN"),
    "t is too large": setting(MIDDLE, "t", value=1e308),
    "t is negative": setting(MIDDLE, "t", value=-1.0),
    "t goes back": setting(MIDDLE, "t", value=GOOD[MIDDLE]["t"] - 1.0),
    "a step that is text": setting(MIDDLE, "data", "first_step", value="x"),
    "a duration that is text": setting(MIDDLE, "data", "duration_s", value="x"),
    "no duration": setting(MIDDLE, "data", "duration_s", value=None),
    "a list of durations": setting(MIDDLE, "data", "duration_s", value=[]),
    "more time waited than there was": setting(MIDDLE, "data", "input_s", value=1.0),
    "half a surrogate pair in an option": setting(0, *PLAN, "options", value={"k": "\ud800"}),
    "half a surrogate pair in a node": setting(0, *PLAN, "node_names", value=["\ud800"]),
    "an escape code in a node": setting(0, "data", "node", value="vm\x1b[31m"),
    "a device with an id alone": setting(0, "data", "job", "processes", 0, "devices", value=[{"id": 1}]),
    "a rank that is text": setting(0, "data", "job", "processes", 0, "ranks", value=["x"]),
    "an unknown framework": setting(0, *PLAN, "framework", value="nosuch"),
    "a seed that is none": setting(0, *PLAN, "seed", value=-1),
}
WALLS = [1e18, -1e18, 1e308, 253402300800, "Infinity", "NaN", int("9" * 400)]


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_a_log_that_says_what_cannot_be_is_refused_at_its_entry(http, name):
    answer = ingested(http, changed(IMPOSSIBLE[name]))
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["pointer"].startswith("/")
    assert lists_answer(http)


@pytest.mark.parametrize("wall", WALLS)
@pytest.mark.parametrize("index", [0, MIDDLE, len(GOOD) - 1])
def test_a_real_time_that_no_calendar_has_is_refused(http, wall, index):
    answer = ingested(http, changed(setting(index, "wall", value=wall)))
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["pointer"].startswith(f"/{index}")
    assert lists_answer(http)


# By name: pytest puts the name of a test into the environment, which holds no such lines.
NO_ENTRIES = {
    "deep list": "[" * 200_000,
    "deep object": '{"a":' * 100_000,
    "double key": '{"a": 1, "a": 1}',
    "list": "[]",
    "number": "1e999",
}


@pytest.mark.parametrize("name", NO_ENTRIES)
def test_a_line_that_is_no_entry_is_refused_by_its_number(http, name):
    answer = ingested(http, NO_ENTRIES[name] + "\n")
    assert answer.status_code == 400, answer.text
    assert "line 1" in answer.json()["detail"]


@pytest.mark.parametrize("name", ["durations of no length", "another unit of work", "t goes back", "t is too large"])
def test_the_analysis_makes_an_invalid_log_of_it(name):
    analysis = analysed(changed(IMPOSSIBLE[name]))
    assert analysis.failure.kind is FailureKind.INVALID_LOG
    assert analysis.measurement("throughput") is None


@pytest.mark.parametrize("share", [1e-3, 0.1, 0.5])
def test_durations_that_are_shorter_than_the_clock_says_give_no_rate(http, share):
    """Nothing forbids a process to wait between its intervals; but then they are not the training's time."""
    shorter = changed(of_all_intervals("duration_s", lambda seconds: seconds * share))
    answer = ingested(http, shorter)
    assert answer.status_code == 201, answer.text
    assert "clocks_disagree" in [reason["code"] for reason in answer.json()["validity"]["reasons"]]
    assert answer.json()["throughput"] is None


def test_a_monotonic_clock_that_runs_at_another_rate_than_real_time_gives_no_rate():
    def stretch(entries):
        first = entries[0]["t"]
        for entry in entries:
            entry["t"] = first + 100 * (entry["t"] - first)
            if entry["kind"] == "interval":
                entry["data"]["duration_s"] *= 100

    analysis = analysed(changed(stretch))
    assert "clocks_disagree" in [reason.code for reason in analysis.validity.reasons]


def test_a_real_time_clock_that_is_set_once_changes_nothing():
    def set_clock(entries):
        for entry in entries[MIDDLE:]:
            entry["wall"] += 86400

    assert not analysed(changed(set_clock)).validity.reasons


WRONG = st.one_of(
    st.sampled_from([None, True, -3, 0, "x", "NaN", "Infinity", 1.5, 1e308, 10**400, "\ud800", "\x1b[31m", "\x00"]),
    st.sampled_from([[], [None], {}, {"a": None}, [["x"] * 3]]),
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data(), value=WRONG)
def test_no_wrong_value_anywhere_in_an_imported_log_breaks_an_answer(http, data, value):
    entries = copy.deepcopy(entries_of("too_short"))
    kind = data.draw(st.sampled_from(sorted({entry["kind"] for entry in entries})))
    place = data.draw(st.sampled_from([entry for entry in entries if entry["kind"] == kind]))
    while True:
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        if not place[key] or not isinstance(place[key], dict | list) or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = value
    answer = ingested(http, entries)
    assert answer.status_code in (201, 400, 422), answer.text
    if answer.status_code == 201:
        run = f"runs/{answer.json()['id']}"
        for path in ("", *(f"/{part}" for part in ("intervals", "readings", "log", "measurements", "trace"))):
            assert http.get(f"/api/v1/{run}{path}").status_code == 200, path
    assert http.get("/api/v1/runs?limit=1").status_code == http.get("/api/v1/results?limit=1").status_code == 200
