"""What an older version has stored, or somebody else has written into the database, shows as a damaged row, spoils
nothing beside it, is found by the check, and can be removed with all that hangs on it."""

import json

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select, text

from orchestrator.api.server import create_app
from orchestrator.db.tables.schema import metadata
from orchestrator.db.together.removal import hanging
from orchestrator.db.upgrade import check
from orchestrator.domain.around.access import LOCAL
from orchestrator.domain.runs.run import RunState
from orchestrator.domain.runs.stored import DamagedHold, Idempotency, OpenRuns
from orchestrator.domain.value.measurement import Analysis, Measurement, Validity
from orchestrator.domain.words.errors import Conflict, DamagedRow, NotFound
from orchestrator.serve.settings import read_settings
from orchestrator.services.clock import SystemClock
from orchestrator.services.context import Context
from tests.contract import store_scenes as scene
from tests.unit import builders
from tests.unit.api.api_rig import StandingCluster

pytest_plugins = ["tests.contract.store_servers"]

LISTS = ("experiments", "runs", "results", "observations", "netbench", "calibrations")
SURROGATE = '{"k":"\\ud800"}'


@pytest.fixture
def http(store, tmp_path):
    context = Context(store, StandingCluster(), builders.catalog(), SystemClock(), lambda: None)
    app = create_app(context, read_settings({"TBD_DATA_DIR": str(tmp_path)}))
    with TestClient(app, "http://localhost", raise_server_exceptions=False) as client:
        yield client


def measured(store, at, **fields):
    """A completed experiment with a run that has everything: an attempt, a log, an analysis."""
    new, (run,) = scene.submitted(store, at=at, owner=LOCAL, **fields)
    attempt = scene.brought_to(store, run, RunState.COLLECTING, at=at + 1)
    store.append_entries(
        attempt.id,
        "n0",
        LOG,
    )
    rate = Measurement("throughput", 10.0, "images/s", "work / time")
    store.conclude(run.id, RunState.COMPLETED, at=at + 9, analysis=Analysis(Validity(), measurements=(rate,)))
    return new, run, attempt


LOSS = {"step": 1, "value": 0.5}
OUTPUT = {"process": "worker0", "stream": "stdout", "offset": 0, "text": "step 1\n"}


def interval(seq):
    data = {"phase": "timed", "first_step": 1, "n": 1, "duration_s": 0.5, "work": {"images": 4}}
    return scene.entry(seq, "interval", data=data)


LOG = [scene.entry(1, data=LOSS), scene.entry(2, "output", data=OUTPUT), interval(3)]


def write(store, statement, **values):
    store.database.write(lambda connection: connection.execute(text(statement), values))


def set_column(table, column, value):
    def damage(store, new, run, attempt):
        ids = {"experiment": new.id, "run": run.id, "attempt": attempt.id, "result": run.id, "entry": attempt.id}
        key = {"result": "run_id", "entry": "attempt_id"}.get(table, "id")
        write(store, f"UPDATE {table} SET {column} = :value WHERE {key} = :id", value=value, id=ids[table])

    return damage


def in_json(table, column, **changes):
    def damage(store, new, run, attempt):
        key, of = ("run_id", run.id) if table == "result" else ("id", {"experiment": new.id, "run": run.id}[table])
        query = text(f"SELECT {column} FROM {table} WHERE {key} = :id")
        stored = json.loads(store.database.read(lambda connection: connection.execute(query, {"id": of}).scalar_one()))
        write(
            store, f"UPDATE {table} SET {column} = :value WHERE {key} = :id", value=json.dumps(stored | changes), id=of
        )

    return damage


# what is damaged -> (in which list it shows, how)
OF_AN_EXPERIMENT = {
    "a label that is no Unicode": in_json("experiment", "spec", labels={"k": "\ud800"}),
    "a spec that is no JSON": set_column("experiment", "spec", "{"),
    "a spec of another kind": set_column("experiment", "spec", "[]"),
    "a field nobody knows": in_json("experiment", "spec", colour="red"),
    "a time beyond all calendars": set_column("experiment", "created_at", 1e18),
    "an infinite time": set_column("experiment", "created_at", float("inf")),
    "a time before 1970": set_column("experiment", "created_at", -1e18),
    "an end that is none": set_column("experiment", "ended_at", 1e308),
    "an unknown state": set_column("experiment", "state", "nonsense"),
    "facts that are none": set_column("experiment", "facts", "3"),
}
OF_A_RUN = {
    "a plan that is no JSON": set_column("run", "plan", "nonsense"),
    "a plan without a model": set_column("run", "plan", '{"options": {}}'),
    "a seed that is text": in_json("run", "plan", seed="x"),
    "half a surrogate pair in an option": in_json("run", "plan", options={"k": "\ud800"}),
    "a run's time beyond all calendars": set_column("run", "created_at", 253402300800.0),
    "a start that is none": set_column("run", "started_at", float("inf")),
    "an unknown state of a run": set_column("run", "state", "nonsense"),
    "a failure of no kind": set_column("run", "failure", '{"kind": "nonsense"}'),
    "an attempt on no devices": set_column("attempt", "placement", '[{"node": "n0", "devices": [{"id": 1}]}]'),
    "an attempt's time": set_column("attempt", "created_at", -1.0),
    "an analysis of another kind": set_column("result", "analysis", "[]"),
    "a rate that is text": in_json("result", "analysis", measurements=[{"metric": "throughput", "value": "fast"}]),
}


def lists_of(http):
    answers = {path: http.get(f"/api/v1/{path}") for path in LISTS}
    assert {path: answer.status_code for path, answer in answers.items()} == dict.fromkeys(LISTS, 200)
    return {path: answer.json() for path, answer in answers.items()}


def found_by_check(store):
    return store.database.read(lambda connection: list(check.damaged(connection)))


@pytest.mark.parametrize("kind", OF_AN_EXPERIMENT)
@pytest.mark.after_change
def test_a_damaged_experiment_is_marked_in_the_lists_and_the_others_stand_there(http, store, kind):
    before, _, _ = measured(store, 1000.0)
    bad = measured(store, 2000.0)
    after, _, _ = measured(store, 3000.0)
    OF_AN_EXPERIMENT[kind](store, *bad)
    page = lists_of(http)["experiments"]
    assert [item["id"] for item in page["items"]] == [after.id, before.id]
    (damaged,) = page["damaged"]
    assert (damaged["table"], damaged["id"], damaged["experiment_id"]) == ("experiment", bad[0].id, bad[0].id)
    assert damaged["reason"]
    assert damaged["way_out"] == f"tbd rm {bad[0].id}"
    answer = http.get(f"/api/v1/experiments/{bad[0].id}")
    assert answer.status_code == 409
    assert "tbd rm" in answer.json()["detail"]
    assert [one.id for one in found_by_check(store)] == [bad[0].id]


@pytest.mark.parametrize("kind", OF_A_RUN)
def test_a_damaged_run_is_marked_in_the_lists_and_the_others_stand_there(http, store, kind):
    _, before, _ = measured(store, 1000.0)
    bad = measured(store, 2000.0)
    _, after, _ = measured(store, 3000.0)
    OF_A_RUN[kind](store, *bad)
    new, run, _ = bad
    lists = lists_of(http)
    assert [item["id"] for item in lists["runs"]["items"]] == [after.id, before.id]
    assert [one["id"] for one in lists["runs"]["damaged"]] == [run.id]
    assert len(lists["experiments"]["items"]) == 3
    assert len(lists["results"]["items"]) >= 2
    assert http.get(f"/api/v1/runs/{run.id}").status_code == 409
    page = http.get(f"/api/v1/experiments/{new.id}/runs").json()
    assert (page["items"], [one["id"] for one in page["damaged"]]) == ([], [run.id])
    assert [(one.table, one.id, one.experiment_id) for one in found_by_check(store)] == [("run", run.id, new.id)]


@pytest.mark.parametrize("limit", [1, 2])
def test_pages_go_on_behind_a_damaged_row(http, store, limit):
    wanted = [measured(store, 1000.0 * number) for number in range(1, 6)]
    set_column("experiment", "created_at", float("inf"))(store, *wanted[2])
    set_column("experiment", "spec", "{")(store, *wanted[4])
    seen, damaged, cursor = [], [], None
    while True:
        page = http.get("/api/v1/experiments", params={"limit": limit} | ({"cursor": cursor} if cursor else {})).json()
        seen += [item["id"] for item in page["items"]]
        damaged += [one["id"] for one in page["damaged"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == [wanted[n][0].id for n in (3, 1, 0)]
    assert damaged == [wanted[n][0].id for n in (2, 4)]


@pytest.mark.parametrize(
    "body",
    [
        "nonsense",
        "[]",
        '{"seq": 3, "kind": "interval", "t": 1, "wall": 1e18, "data": {}}',
        '{"seq": 3, "kind": "interval", "t": "NaN", "wall": 1000, "rank": "x", "data": {"phase": "timed", '
        '"first_step": "x", "n": 1, "duration_s": null, "work": []}}',
        '{"seq": 3, "kind": "interval", "t": 1e308, "wall": 1000, "data": null}',
    ],
)
@pytest.mark.after_change
def test_a_damaged_entry_of_a_log_spoils_no_answer_about_its_run(http, store, body):
    _, run, attempt = measured(store, 1000.0)
    for seq in (2, 3):
        write(
            store,
            "UPDATE entry SET body = :body WHERE attempt_id = :id AND seq = :seq",
            body=body,
            id=attempt.id,
            seq=seq,
        )
    for part in ("", "/intervals", "/readings", "/log", "/measurements", "/trace", "/memory", "/kernels", "/layers"):
        assert http.get(f"/api/v1/runs/{run.id}{part}").status_code == 200, part
    page = http.get(f"/api/v1/runs/{run.id}/intervals").json()
    assert page["items"] == []
    assert [one["id"] for one in page["damaged"]] == [f"{attempt.id}:n0:3"]
    events = http.get(f"/api/v1/runs/{run.id}/events").text
    assert events.count("event: interval") == 1
    assert "event: end" in events


def test_what_a_program_printed_is_shown_as_far_as_it_is_text(http, store):
    bad = measured(store, 1000.0)
    set_column("run", "failure", '{"kind": "crashed", "message": "no file a\\udcff"}')(store, *bad)
    (item,) = lists_of(http)["runs"]["items"]
    assert item["failure"]["message"] == "no file a\ufffd"
    assert found_by_check(store) == []


def test_a_sound_database_has_no_damaged_rows(store):
    measured(store, 1000.0)
    assert found_by_check(store) == []


def rows_of(store, experiment_id):
    def count(connection):
        found = {}
        for table, column, ids in hanging(experiment_id):
            query = select(func.count()).select_from(table).where(table.c[column].in_(ids))
            found[table.name] = connection.execute(query).scalar_one()
        return found

    return store.database.read(count)


def test_removing_takes_all_that_hangs_on_it_and_nothing_else(http, store):
    kept, gone = measured(store, 1000.0, labels={"a": "b"}), measured(store, 2000.0, labels={"a": "b"})
    before = rows_of(store, kept[0].id)
    assert {"label", "run", "attempt", "result", "entry", "change"} <= {name for name, count in before.items() if count}
    path = f"/api/v1/experiments/{gone[0].id}"
    assert http.delete(path).status_code == 204
    assert http.delete(path).status_code == http.get(path).status_code == 404
    assert set(rows_of(store, gone[0].id).values()) == {0}
    assert rows_of(store, kept[0].id) == before
    assert len(lists_of(http)["experiments"]["items"]) == 1


def test_every_table_with_rows_of_an_experiment_is_emptied():
    """A table that is added later hangs on it by its foreign keys."""
    named = {table.name for table, _, _ in hanging("exp")}
    of_nobody = {"node_order", "heartbeat", "waiting", "token", "session", "deed", "server", "known_node"}
    of_nobody |= {"webhook", "message", "delivery", "device_event", "owner_use"}
    of_nobody |= {"imported_point", "prediction", "alert"}  # an alert says of an experiment that is gone that it is
    free = {"experiment", "schedule", "fire", *of_nobody}
    assert named == set(metadata.tables) - free


@pytest.mark.parametrize("state", [RunState.PLACING, RunState.RUNNING, RunState.COLLECTING])
def test_what_is_carried_out_is_not_removed(http, store, state):
    new, (run,) = scene.submitted(store, owner=LOCAL)
    scene.brought_to(store, run, state)
    answer = http.delete(f"/api/v1/experiments/{new.id}")
    assert answer.status_code == 409
    assert f"tbd cancel {new.id}" in answer.json()["detail"]
    assert store.run(run.id).state is state


def test_what_waits_is_removed_and_cannot_begin_afterwards(http, store):
    new, (run,) = scene.submitted(store, owner=LOCAL)
    assert http.delete(f"/api/v1/experiments/{new.id}").status_code == 204
    with pytest.raises(NotFound):
        store.begin_attempt(run.id, scene.attempt_of(run))
    assert store.add_runs(scene.runs_for(new, 1, first=2)) == 0


@pytest.mark.parametrize("kind", ["a label that is no Unicode", "an infinite time", "an unknown state"])
@pytest.mark.after_change
def test_a_damaged_experiment_can_be_removed(http, store, kind):
    bad = measured(store, 2000.0)
    OF_AN_EXPERIMENT[kind](store, *bad)
    assert http.delete(f"/api/v1/experiments/{bad[0].id}").status_code == 204
    assert found_by_check(store) == []
    assert lists_of(http)["experiments"] == {"items": [], "next_cursor": None, "damaged": []}


def test_a_damaged_run_that_nobody_can_follow_does_not_keep_its_experiment(store):
    new, (run,) = scene.submitted(store, owner=LOCAL)
    attempt = scene.brought_to(store, run, RunState.RUNNING)
    with pytest.raises(Conflict):
        store.remove_experiment(new.id)
    set_column("run", "plan", "{")(store, new, run, attempt)
    with pytest.raises(DamagedRow):
        store.run(run.id)
    store.remove_experiment(new.id)


NOT_OF_WHAT_RUNS = {"an unknown state of a run", "an analysis of another kind", "a rate that is text"}


@pytest.mark.parametrize("kind", sorted(OF_A_RUN.keys() - NOT_OF_WHAT_RUNS))
@pytest.mark.after_change
def test_a_damaged_run_goes_on_holding_its_nodes_and_can_be_told_to_end(store, kind):
    new, (run,) = scene.submitted(store, owner=LOCAL)
    attempt = scene.brought_to(store, run, RunState.RUNNING)
    OF_A_RUN[kind](store, new, run, attempt)
    for wanted in (False, True):
        found = store.open_runs(10)
        assert found == OpenRuns(found.runs, [DamagedHold(attempt.id, attempt.placement.nodes, wanted)])
        store.cancel_experiment(new.id, 3000.0)


def test_the_key_of_a_removed_experiment_makes_a_new_one(store):
    first, second = scene.experiment(), scene.experiment()
    key = Idempotency("ada", "once", "digest")
    assert store.add_experiment(first, [], key)[1]
    store.remove_experiment(first.id)
    assert store.add_experiment(second, [], key) == (second, True)


def test_of_a_damaged_experiment_the_runs_go_on(store):
    """What runs is a run: that the label of its experiment cannot be shown is no reason to stop it."""
    new, (run,) = scene.submitted(store, owner=LOCAL)
    attempt = scene.brought_to(store, run, RunState.RUNNING)
    in_json("experiment", "spec", labels={"k": "\ud800"})(store, new, run, attempt)
    assert [one.id for one in store.open_runs(10).runs] == [run.id]
    store.cancel_experiment(new.id, 3000.0)
    assert store.run(run.id).cancel_requested
