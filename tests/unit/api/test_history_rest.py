"""The history of a series over REST: points of many experiments, baselines, borders, and what is said of them."""

import math
from random import Random
from typing import Any

import pytest
from sqlalchemy import update

from orchestrator.db.tables.history import point
from orchestrator.db.tables.schema import run as stored_run
from orchestrator.domain.around.alerts import Alert, AlertState, Candidate, Told
from orchestrator.domain.around.history import Point
from orchestrator.domain.asked.fingerprint import Changed
from orchestrator.domain.runs.run import RunState
from orchestrator.domain.value.failure import Failure, FailureKind
from orchestrator.domain.value.measurement import Analysis, Grade, Measurement, Validity
from orchestrator.services.history.workload import lines_of
from tests.unit.api.api_rig import Rig, rate

NOISE = 0.003  # of a night
EFFECT = Measurement("difference_ratio", -0.02, "1", "as told", ci_low=-0.03, ci_high=-0.01, confidence=0.95)


def told(version: str = "2.12", node: str = "n0", kernel: str = "6.1", workload: str = "w" * 16) -> dict[str, Any]:
    """A fingerprint of a run on the only device of a node."""
    rig = {"nodes": {node: {"hostname": node, "kernel": kernel}}, "device_ids": ["cpu:0"]}
    return {
        "workload": {"model": "net", "framework": "pytorch", "device_models": ["a cpu"], "cores_per_device": [1]},
        "subject": {"framework": "pytorch", "framework_version": version},
        "rig": rig,
        "condition": {},
        "workload_key": workload,
        "subject_key": version,
        "rig_key": f"{node} {kernel}",
    }


def night(rig: Rig, level: float, number: int = 0, repeats: int = 3, **fingerprint: Any) -> str:
    """An experiment of one cell whose runs are over; its id."""
    made = rig.submit(repeats=repeats, name=f"night-{number}")["id"]
    for k, run in enumerate(rig.store.runs_of(made)):
        rig.start(run.id)
        value = level * (1 + NOISE * Random(number).gauss(0, 1)) * (1 + 1e-4 * k)
        rig.finish(run.id, rate(value), fingerprint=told(**fingerprint))
    return str(made)


def nights(rig: Rig, level: float, count: int, first: int = 0, **fingerprint: Any) -> list[str]:
    return [night(rig, level, first + k, **fingerprint) for k in range(count)]


def test_a_series_has_a_point_for_each_experiment_and_one_baseline_while_nothing_changes(rig: Rig) -> None:
    made = nights(rig, 100.0, 6)
    (listed,) = rig.get("/history")["items"]
    assert (listed["key"], listed["n_points"], listed["workload"]["model"]) == ("w" * 16, 6, "net")
    found = rig.get(f"/history/{listed['key']}")
    assert [item["experiment_id"] for item in found["items"]] == made
    assert {item["grade"] for item in found["items"]} == {"sound"}
    (row,) = rig.get(f"/experiments/{made[2]}/results")["items"]
    assert found["items"][2]["throughput"] == row["throughput"]
    (baseline,) = found["baselines"]
    assert (baseline["points"], baseline["n_sessions"]) == (list(range(6)), 6)
    level = baseline["level"]
    assert level["ci_low"] < 100.0 < level["ci_high"]
    assert level["ci_high"] - level["ci_low"] < 1.5
    assert (found["borders"], found["findings"], found["unit"]) == ([], [], "images/s")


@pytest.mark.parametrize(("level", "state"), [(90.0, "candidate"), (110.0, "faster")])
def test_a_change_of_software_is_named_with_what_it_coincides_with(rig: Rig, level: float, state: str) -> None:
    nights(rig, 100.0, 8)
    nights(rig, level, 3, first=8, version="2.13")
    found = rig.get("/history/www")
    (border,) = found["borders"]
    change = {"part": "subject", "field": "framework_version", "before": "2.12", "after": "2.13"}
    assert (border["point"], border["changes"]) == (8, [change])
    assert border["difference"]["ci_low"] < level / 100.0 - 1.0 < border["difference"]["ci_high"]
    assert found["items"][8]["borders"] == ["framework_version 2.12 → 2.13"]
    (finding,) = found["findings"]
    assert (finding["kind"], finding["state"], finding["point"], finding["changes"]) == ("step", state, 8, [change])
    assert finding["difference"] == pytest.approx(level / 100.0 - 1.0, abs=0.01)
    assert (finding["alert_id"], finding["effect"]) == (None, None)
    assert "it coincides with framework_version 2.12 → 2.13" in finding["text"]
    assert ("nothing was tried side by side" in finding["text"]) == (state == "candidate")


def told_of(made: list[str], rig: Rig, place: str = "n0 cpu:0") -> Alert:
    """A confirmed alert of nights that are slower from the ninth on."""
    (run, *_) = rig.store.runs_of(made[8])
    candidate = Candidate("c0", "net pytorch 4", place, 9.0, 10.0, -0.1, made[8], run.plan.cell_key)
    told = Told((candidate,), (Changed("subject", "framework_version", "2.12", "2.13"),), "confirmed in exp_1", EFFECT)
    return Alert("alt_1", "sch_1", AlertState.OPEN, 11.0, 11.0, "exp_1", told)


def test_an_alert_is_told_with_its_state_and_effect_also_where_nights_alone_do_not_look_slower(rig: Rig) -> None:
    made = [*nights(rig, 100.0, 8), *nights(rig, 90.0, 3, first=8, version="2.13")]
    rig.store.add_alert(told_of(made, rig))
    (finding,) = rig.get("/history/www")["findings"]
    wanted = {"state": "open", "alert_id": "alt_1", "experiment_id": "exp_1", "point": 8, "kind": "step"}
    assert wanted.items() <= finding.items()
    assert (finding["effect"]["value"], finding["effect"]["ci_low"]) == (-0.02, -0.03)
    assert finding["text"].endswith("; open: confirmed in exp_1 (alt_1)")
    (finding,) = rig.get("/history/www", limit=3)["findings"]
    assert wanted.items() <= (finding | {"point": 8}).items()


def test_an_alert_of_another_place_is_not_that_of_this_one(rig: Rig) -> None:
    made = [*nights(rig, 100.0, 8), *nights(rig, 90.0, 3, first=8, version="2.13")]
    rig.store.add_alert(told_of(made, rig, "n1 cpu:0"))
    (finding,) = rig.get("/history/www")["findings"]
    assert finding["state"] == "candidate"


def test_a_change_of_the_rig_begins_a_new_baseline_and_is_named_as_what_it_coincides_with(rig: Rig) -> None:
    nights(rig, 100.0, 4)
    nights(rig, 90.0, 4, first=4, kernel="6.8")
    found = rig.get("/history/www")
    assert [one["points"] for one in found["baselines"]] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert found["items"][4]["borders"][0].startswith("rig, new baseline: nodes.n0.kernel 6.1 → 6.8, -")
    (finding,) = found["findings"]
    assert "it coincides with nodes.n0.kernel 6.1 → 6.8" in finding["text"]


def test_a_night_that_failed_is_a_point_without_a_number(rig: Rig) -> None:
    nights(rig, 100.0, 2)
    made = rig.submit(repeats=1, name="failed")["id"]
    (run,) = rig.store.runs_of(made)
    rig.start(run.id)
    failure = Failure(FailureKind.SETUP_FAILED, "no such library")
    rig.finish(run.id, Analysis(Validity(), failure), RunState.FAILED, failure=failure, fingerprint={})
    found = rig.get("/history/www")
    last = found["items"][-1]
    assert (last["experiment_id"], last["throughput"], last["grade"]) == (made, None, "broken")
    assert "no such library" in last["reason"]
    assert found["baselines"][0]["points"] == [0, 1]


def test_a_night_that_goes_on_is_shown_and_counts_nowhere_yet(rig: Rig) -> None:
    nights(rig, 100.0, 2)
    made = rig.submit(repeats=2, name="tonight")["id"]
    first, _ = rig.store.runs_of(made)
    rig.start(first.id)
    rig.finish(first.id, rate(50.0), fingerprint=told())
    found = rig.get("/history/www")
    last = found["items"][-1]
    assert (last["n_runs"], last["n_open"], last["sessions"]) == (1, 1, [])
    assert last["throughput"]["value"] == 50.0
    assert found["baselines"][0]["points"] == [0, 1]


def test_what_was_kept_of_a_point_is_computed_anew_when_another_run_of_it_ends(rig: Rig) -> None:
    made = rig.submit(repeats=2)["id"]
    first, second = rig.store.runs_of(made)
    rig.start(first.id)
    rig.finish(first.id, rate(100.0), fingerprint=told())
    assert rig.get("/history/www")["items"][0]["throughput"]["value"] == 100.0
    rig.start(second.id)
    rig.finish(second.id, rate(110.0), fingerprint=told())
    assert rig.get("/history/www")["items"][0]["throughput"]["value"] == pytest.approx(math.sqrt(100.0 * 110.0))


def test_series_are_found_by_filters_and_listed_in_pages(rig: Rig) -> None:
    for number in range(5):
        night(rig, 100.0, number, workload=f"{number}abc")
    page = rig.get("/history", limit=2)
    keys = [item["key"] for item in page["items"]]
    while page["next_cursor"]:
        page = rig.get("/history", limit=2, cursor=page["next_cursor"])
        keys += [item["key"] for item in page["items"]]
    assert keys == [f"{number}abc" for number in reversed(range(5))]
    assert [item["key"] for item in rig.get("/history", series="3")["items"]] == ["3abc"]
    assert len(rig.get("/history", model="net", framework="pytorch")["items"]) == 5
    assert rig.get("/history", model="other")["items"] == []
    assert rig.get("/history", owner="nobody")["items"] == []


@pytest.mark.parametrize(("key", "status"), [("1", 409), ("1a%25", 404), ("%00", 404)])
def test_a_series_that_is_not_there_or_several_are_refused(rig: Rig, key: str, status: int) -> None:
    night(rig, 100.0, workload="1abc")
    night(rig, 100.0, workload="1abd")
    answer = rig.http.get(f"/api/v1/history/{key}")
    assert answer.status_code == status, answer.text
    if status == 409:
        assert "1abc" in answer.json()["detail"]
        assert "1abd" in answer.json()["detail"]


def test_a_device_that_alone_gets_slower_is_named(rig: Rig) -> None:
    for number in range(12):
        for k, node in enumerate(("n0", "n1", "n2")):
            slow = 0.95 if node == "n1" and number >= 8 else 1.0
            night(rig, 100.0 * slow, 5 * number + k, repeats=1, node=node)
    found = rig.get("/history/www")
    (finding,) = found["findings"]
    assert (finding["kind"], finding["state"], finding["changes"]) == ("step", "candidate", [])
    assert found["places"][finding["place"]]["nodes"] == ["n1"]
    assert "n1 cpu:0 looks slower by" in finding["text"]


def test_an_experiment_that_is_removed_leaves_the_series(rig: Rig) -> None:
    made = nights(rig, 100.0, 3)
    rig.get("/history/www")
    assert rig.http.delete(f"/api/v1/experiments/{made[1]}").status_code in (200, 202, 204)
    found = rig.get("/history/www")
    assert [item["experiment_id"] for item in found["items"]] == [made[0], made[2]]


def test_a_run_that_cannot_be_read_is_told_and_the_other_nights_stay(rig: Rig) -> None:
    made = nights(rig, 100.0, 3)
    torn = update(stored_run).where(stored_run.c.experiment_id == made[1]).values(plan="[]")
    rig.store.database.write(lambda connection: connection.execute(torn))
    of_before = update(point).values(version="another version")
    rig.store.database.write(lambda connection: connection.execute(of_before))
    for _ in range(2):  # the second time as well: who looks stores nothing
        found = rig.get("/history/www")
        assert [item["experiment_id"] for item in found["items"]] == [made[0], made[2]]
        assert {one["experiment_id"] for one in found["damaged"]} == {made[1]}


def test_interpreters_that_are_compared_side_by_side_are_lines_of_their_own() -> None:
    def line(*experiments: str) -> list[int]:
        """The lines of experiments, each a word of its interpreters."""
        points = [
            Point(str(k), "c", "w", float(k), name, None, "none", Grade.BROKEN, (), 1, 0, 0, ())
            for k, names in enumerate(experiments)
            for name in names
        ]
        return lines_of(points)

    assert line("a", "a", "b", "b", "a") == [0, 0, 0, 0, 0]  # one after the other: one line, with borders
    assert line("ab", "ab", "ab") == [0, 1, 0, 1, 0, 1]
    assert line("a", "ba", "a") == [0, 1, 0, 0]
    assert line("a", "ab", "b", "b") == [0, 0, 1, 0, 0]  # tried once beside it, then taken
    assert line("ab", "ab", "ab", "b", "a") == [0, 1, 0, 1, 0, 1, 1, 0]
    assert line("ab", "cd") == [0, 1, 0, 2]
