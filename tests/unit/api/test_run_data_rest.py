"""What a run's logs hold: intervals, readings, output, measurements, profiles."""

import json
from dataclasses import replace
from typing import Any

import pytest

from orchestrator.domain.runs.durations import LEAST
from orchestrator.domain.runs.run import ExperimentState, RunState
from orchestrator.domain.value.failure import Failure, FailureKind
from orchestrator.reports.numbers import seconds_of
from tests.unit import builders
from tests.unit.analysis.logs import NODE, a_log, quiet
from tests.unit.api.api_rig import Rig, entry, interval, rate

JOB = {"token": "secret of the attempt", "processes": [{"name": "w0", "ranks": [0]}, {"name": "w1", "ranks": [1]}]}
NOTHING = {"items": [], "next_cursor": None, "damaged": [], "reason": None}
OPENED = entry(1, "log_opened", protocol=1, attempt_id="a", run_id="r", node="n0", job=JOB, inventory={}, provenance={})


@pytest.fixture
def run_id(rig: Rig) -> str:
    rig.submit(repeats=1)
    return str(rig.get("/runs")["items"][0]["id"])


def test_intervals_are_paged_node_by_node_without_a_gap(rig: Rig, run_id: str) -> None:
    attempt = rig.start(run_id)
    for node in ("n0", "n1"):
        rig.store.append_entries(attempt, node, [OPENED, *(interval(seq, seq - 2) for seq in range(2, 7))])
    found, cursor = [], None
    while True:
        page = rig.get(f"/runs/{run_id}/intervals", limit=3, **({"cursor": cursor} if cursor else {}))
        found += [(item["node"], item["first_step"]) for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert found == [(node, step) for node in ("n0", "n1") for step in range(5)]


def test_what_was_thinned_is_said_wherever_it_is_missed(rig: Rig, run_id: str) -> None:
    attempt, path = rig.start(run_id), f"/runs/{run_id}"
    rig.store.append_entries(attempt, NODE, a_log(readings=quiet()))
    rig.finish(run_id, rate(10.0))
    assert rig.get(f"{path}/readings")["reason"] is None
    rig.store.thin(attempt, at=86400.0)
    why = "its readings were removed on 1970-01-02, as they were old (TBD_KEEP_READINGS_DAYS)"
    assert (rig.get(f"{path}/readings")["items"], rig.get(f"{path}/readings")["reason"]) == ([], why)
    assert (rig.get(f"{path}/time-series")["end_s"], rig.get(f"{path}/time-series")["reason"]) == (None, why)
    assert rig.get(f"{path}/reanalysis")["reason"] == why
    assert rig.get(f"{path}/trace")["otherData"]["thinned"] == why
    streamed = rig.http.get(f"/api/v1{path}/events").text
    said = f'event: thinned\ndata: {{"attempt_id": "{attempt}", "reason": "{why}"}}\n\nevent: log_opened\n'
    assert said in streamed
    record = rig.http.get(f"/api/v1/experiments/{rig.get(path)['experiment_id']}/record")
    assert record.status_code == 409
    assert why in record.json()["detail"]
    assert why in rig.http.get(path).text
    assert "readings removed on 1970-01-02" in rig.http.get(path).text


def test_a_queued_run_says_its_place_what_is_kept_for_it_and_by_when_it_begins(rig: Rig) -> None:
    made = rig.submit(repeats=LEAST + 4, max_repeats=LEAST + 4)
    *earlier, going, first, second, _ = [run.id for run in rig.store.runs_of(made["id"])]
    began = rig.context.clock.now() - 3.0
    assert rig.store.begin_attempt(going, builders.attempt(going, nodes=("n0", "n1"), created_at=began))

    def told(run_id: str) -> Any:
        return rig.get(f"/runs/{run_id}")["outlook"]

    limit_s = rig.store.run(going).plan.timeout_s
    first_of_all = {"at_least": False, "first": earlier[0], "first_owner": "local"}
    unknown = {"kept": [], "awaited": [], "starts_at": None, "evidence": None}
    assert told(first) == {"before": LEAST, **first_of_all, **unknown}
    found = told(earlier[0])
    assert (found["before"], [one["node"] for one in found["kept"]], found["awaited"]) == (0, ["n0"], [going])
    assert (seconds_of(found["starts_at"]), found["evidence"]) == (pytest.approx(began + limit_s), "timeout_s")
    rig.store.move_run(going, RunState.PLACING, RunState.RUNNING, at=began)
    for run_id in earlier:
        rig.start(run_id)
        rig.finish(run_id, rate(10.0))  # after 8 s
    assert told(going) is None
    assert (told(first)["before"], told(second)["before"], told(second)["starts_at"]) == (0, 1, None)
    found = told(first)
    assert (seconds_of(found["starts_at"]), found["evidence"]) == (pytest.approx(began + 8.0), "earlier_runs")
    rig.http.post(f"/api/v1/experiments/{made['id']}/pause")
    assert told(first) is None


def test_a_run_without_an_attempt_has_empty_lists_and_an_attempt_that_never_was_is_not_found(
    rig: Rig, run_id: str
) -> None:
    for what in ("measurements", "intervals", "readings", "log"):
        assert rig.get(f"/runs/{run_id}/{what}") | {"reason": None} == NOTHING
    assert rig.http.get(f"/api/v1/runs/{run_id}/intervals?attempt=1").status_code == 404


def test_readings_have_a_name_a_subject_and_null_where_nothing_was_read(rig: Rig, run_id: str) -> None:
    values = [["power_w", "device:gpu", None], ["core_active_s", "core:0", 0.9]]
    rig.store.append_entries(rig.start(run_id), "n0", [OPENED, entry(2, "reading", window_s=1.0, values=values)])
    (reading,) = rig.get(f"/runs/{run_id}/readings")["items"]
    assert reading["values"][0] == {"metric": "power_w", "subject": "device:gpu", "value": None}
    assert reading["at"] == "2001-09-09T01:46:42.000000Z"


def test_a_run_over_its_time_is_thinned_on_demand_also_where_nothing_was_kept_when_it_ended(
    rig: Rig, run_id: str
) -> None:
    attempt, path = rig.start(run_id), f"/runs/{run_id}/time-series"
    rig.store.append_entries(attempt, NODE, a_log(readings=quiet()))
    assert (rig.get(path)["items"], rig.get(path)["end_s"]) == ([], None)
    rig.finish(run_id, rate(10.0))
    found = rig.get(path, points=10)
    assert [(one["metric"], one["subject"]) for one in found["items"]] == [
        ("cpu_cores_busy", NODE),
        ("step_time_s", "rank 0"),
    ]
    assert all(len(one["points"]) <= 10 and one["points"][0][0] == 3.0 for one in found["items"])
    assert rig.get(path, points=10) == found
    part = rig.get(path, from_s=10.0, to_s=12.0)["items"][1]["points"]
    assert 10.0 <= part[1][0] <= part[-2][0] <= 12.0
    assert rig.http.get(f"/api/v1{path}?from_s=-1").status_code == 422


def test_output_is_chosen_by_rank_and_stream_and_cut_at_an_offset_in_bytes(rig: Rig, run_id: str) -> None:
    pieces = [
        entry(2, "output", process="w0", stream="stdout", offset=0, text="grüß"),
        entry(3, "output", process="w1", stream="stdout", offset=0, text="one"),
        entry(4, "output", process="w0", stream="stderr", offset=0, text="oops"),
        entry(5, "output", process="w0", stream="stdout", offset=6, text="gott"),
    ]
    rig.store.append_entries(rig.start(run_id), "n0", [OPENED, *pieces])

    def texts(**parameters: object) -> list[str]:
        return [item["text"] for item in rig.get(f"/runs/{run_id}/log", **parameters)["items"]]

    assert texts() == ["grüß", "one", "oops", "gott"]
    assert texts(rank=0, stream="stdout") == ["grüß", "gott"]
    assert texts(rank=1) == ["one"]
    assert texts(rank=0, stream="stdout", offset=4) == ["ß", "gott"]
    assert texts(rank=0, stream="stdout", offset=7) == ["ott"]


def test_a_number_that_is_none_travels_as_a_string(rig: Rig, run_id: str) -> None:
    odd = entry(2, "interval", phase="timed", first_step=0, n=1, duration_s="NaN", work={"images": 4})
    rig.store.append_entries(rig.start(run_id), "n0", [OPENED, odd])
    answer = rig.http.get(f"/api/v1/runs/{run_id}/intervals")
    assert answer.json()["items"][0]["duration_s"] == "NaN"


def test_the_token_of_an_attempt_never_leaves(rig: Rig, run_id: str) -> None:
    rig.store.append_entries(rig.start(run_id), "n0", [OPENED])
    rig.finish(run_id, rate(10.0))
    for path in ("", "/log", "/events", "/intervals"):
        text = rig.http.get(f"/api/v1/runs/{run_id}{path}").text
        assert JOB["token"] not in text
        assert '"secret"' not in text


def test_measurements_have_units_intervals_methods_and_reasons(rig: Rig, run_id: str) -> None:
    rig.start(run_id)
    rig.finish(run_id, rate(10.0))
    found = {item["metric"]: item for item in rig.get(f"/runs/{run_id}/measurements")["items"]}
    assert found["throughput"]["value"] == 10.0
    assert (found["throughput"]["ci_low"], found["throughput"]["unit"]) == (9.0, "images/s")
    assert found["power_w"]["value"] is None
    assert found["power_w"]["reason"] == "a CPU device has no power reading"


def test_a_run_tells_where_the_time_of_its_devices_went(rig: Rig, run_id: str) -> None:
    told = {"start_s": 1.0, "build_s": 1.0, "warmup_s": 0.5, "timed_s": 4.5, "end_s": 0.5}
    rig.start(run_id)
    assert rig.get(f"/runs/{run_id}")["device_time"] is None
    rig.finish(run_id, replace(rate(10.0), summary={"device_time": told}))
    assert rig.get(f"/runs/{run_id}")["device_time"] == {**told, "pause_s": 1.5, "timed_ratio": 0.5}


def test_a_run_tells_its_state_and_why(rig: Rig, run_id: str) -> None:
    rig.store.set_waiting(rig.store.run(run_id).plan.needs.key, "waits for 1 of 2 nodes")
    assert rig.get(f"/runs/{run_id}")["reason"] == "waits for 1 of 2 nodes"
    rig.start(run_id)
    failure = Failure(FailureKind.CRASHED, "rank 0 exited with 1", (0,), exit_code=1, stderr_tail="boom")
    rig.finish(run_id, builders.analysis(failure=failure), RunState.FAILED, failure=failure)
    run = rig.get(f"/runs/{run_id}")
    assert (run["state"], run["reason"]) == ("failed", "crashed: rank 0 exited with 1")
    assert run["failure"]["stderr_tail"] == "boom"
    assert run["attempts"][0]["placement"][0]["node"] == "n0"
    assert run["throughput"] is None


def test_a_disturbed_run_has_its_throughput_and_its_grade_and_a_broken_one_none(rig: Rig, run_id: str) -> None:
    rig.start(run_id)
    rig.finish(run_id, rate(10.0, builders.LOADED))
    run = rig.get(f"/runs/{run_id}")
    assert run["throughput"]["value"] == 10.0
    assert run["validity"]["grade"] == "disturbed"
    assert run["reason"] == builders.LOADED.text


def test_profiles_that_were_not_made_are_null_or_empty_with_a_reason(rig: Rig, run_id: str) -> None:
    memory = rig.get(f"/runs/{run_id}/memory")
    assert memory["classes"] is None
    assert memory["reason"]
    for what in ("kernels", "layers"):
        rows = rig.get(f"/runs/{run_id}/{what}")
        assert rows["items"] == []
        assert rows["reason"]


def events(text: str) -> list[tuple[str | None, str, object]]:
    """(id, event, data) of each server-sent event of a stream that has ended."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and not line.startswith(":"))
        if fields:
            found.append((fields.get("id"), fields["event"], json.loads(fields["data"])))
    return found


def test_the_stream_of_a_run_has_every_entry_once_and_is_resumed_after_the_last_id(rig: Rig, run_id: str) -> None:
    attempt = rig.start(run_id)
    rig.store.append_entries(attempt, "n0", [OPENED, *(interval(seq, seq) for seq in range(2, 9))])
    rig.finish(run_id, rate(10.0))
    path = f"/api/v1/runs/{run_id}/events"
    whole = rig.http.get(path)
    assert whole.headers["content-type"].startswith("text/event-stream")
    ids = [identifier for identifier, _, _ in events(whole.text) if identifier]
    assert ids == [f"{attempt}:n0:{seq}" for seq in range(1, 9)]
    assert [kind for _, kind, _ in events(whole.text)][-1] == "end"
    resumed = events(rig.http.get(path, headers={"Last-Event-ID": ids[4]}).text)
    assert [identifier for identifier, _, _ in resumed if identifier] == ids[5:]


def test_a_resumed_stream_loses_nothing_of_the_other_nodes(rig: Rig, run_id: str) -> None:
    attempt = rig.start(run_id)
    for node in ("n0", "n1"):
        rig.store.append_entries(attempt, node, [OPENED, interval(2, 0)])
    rig.finish(run_id, rate(10.0))
    answer = rig.http.get(f"/api/v1/runs/{run_id}/events", headers={"Last-Event-ID": f"{attempt}:n1:1"})
    ids = {identifier for identifier, _, _ in events(answer.text)}
    assert {f"{attempt}:n0:1", f"{attempt}:n0:2", f"{attempt}:n1:2"} <= ids


def test_the_stream_of_an_experiment_numbers_its_changes(rig: Rig, run_id: str) -> None:
    experiment_id = rig.get(f"/runs/{run_id}")["experiment_id"]
    rig.start(run_id)
    rig.finish(run_id, rate(10.0))
    rig.store.end_experiment(experiment_id, ExperimentState.COMPLETED, 11.0)
    path = f"/api/v1/experiments/{experiment_id}/events"
    whole = events(rig.http.get(path).text)
    states = [data["state"] for _, kind, data in whole if kind == "run"]  # type: ignore[index]
    assert states[-3:] == ["running", "collecting", "completed"]
    numbers = [int(identifier) for identifier, _, _ in whole if identifier]
    assert numbers == sorted(set(numbers))
    resumed = events(rig.http.get(path, headers={"Last-Event-ID": str(numbers[1])}).text)
    assert [int(identifier) for identifier, _, _ in resumed if identifier] == numbers[2:]


@pytest.mark.parametrize("identifier", ["x", "1:2", "a:b:c", "::1", "-1", "\u00b2", "9" * 23, "9" * 5000])
def test_an_id_that_is_none_of_the_streams_is_refused(rig: Rig, run_id: str, identifier: str) -> None:
    headers = {"Last-Event-ID": identifier.encode("latin-1")}
    experiment_id = rig.get(f"/runs/{run_id}")["experiment_id"]
    for path in (f"/runs/{run_id}/events", f"/experiments/{experiment_id}/events"):
        answer = rig.http.get(f"/api/v1{path}", headers=headers)
        assert answer.status_code == 422
        assert (answer.json()["errors"][0]["pointer"], answer.json()["errors"][0]["in"]) == ("/Last-Event-ID", "header")


def test_an_id_that_a_stream_has_not_sent_is_refused_and_does_not_skip_what_is_stored(rig: Rig, run_id: str) -> None:
    attempt = rig.start(run_id)
    rig.store.append_entries(attempt, "n0", [OPENED, interval(2, 0)])
    rig.finish(run_id, rate(10.0))
    experiment_id = rig.get(f"/runs/{run_id}")["experiment_id"]
    rig.store.end_experiment(experiment_id, ExperimentState.COMPLETED, 11.0)
    path = f"/api/v1/experiments/{experiment_id}/events"
    last = [identifier for identifier, _, _ in events(rig.http.get(path).text) if identifier][-1]
    assert rig.http.get(path, headers={"Last-Event-ID": last}).status_code == 200
    assert rig.http.get(path, headers={"Last-Event-ID": str(int(last) + 1)}).status_code == 422
    path = f"/api/v1/runs/{run_id}/events"
    assert rig.http.get(path, headers={"Last-Event-ID": f"{attempt}:n0:2"}).status_code == 200
    for unsent in (f"{attempt}:n0:3", f"{attempt}:n1:1", "att_other:n0:1", f"{attempt}:n0:{'9' * 23}"):
        answer = rig.http.get(path, headers={"Last-Event-ID": unsent})
        assert answer.status_code == 422, unsent
        assert answer.json()["errors"][0]["in"] == "header"


def test_the_head_of_a_stream_does_not_wait_for_its_end(rig: Rig) -> None:
    experiment = rig.submit()["id"]
    answer = rig.http.head(f"/api/v1/experiments/{experiment}/events")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"].startswith("text/event-stream")
