"""The nightly board over REST and as the command prints it. What becomes of nights: ``contract/test_nightly.py``."""

from typing import Any

import pytest

from orchestrator.cli.commands.analyse import nightly
from orchestrator.cli.exits import DONE, FAILED, REGRESSION, CommandError
from orchestrator.domain.runs.run import ExperimentState
from orchestrator.reports.tables.nightly import LEGEND, board_lines
from tests.unit.api.api_rig import SPEC, Rig
from tests.unit.api.test_owners_rest import People

NIGHTLY: dict[str, Any] = {"name": "nightly", "cron": "0 2 * * *", "spec": SPEC, "paused": True}


def night(rig: Rig, schedule: str, rates: list[float], **observed: Any) -> None:
    """Have the schedule run now, and its runs end with these rates."""
    fire = rig.http.post(f"/api/v1/schedules/{schedule}/run").json()
    rig.complete_all(fire["experiment_id"], rates, **observed)
    assert rig.store.end_experiment(fire["experiment_id"], ExperimentState.COMPLETED, 20.0)


def slowed(rig: Rig) -> str:
    """Seven usual nights and two slow ones; the schedule's id."""
    made = rig.http.post("/api/v1/schedules", json=NIGHTLY).json()["id"]
    for place in range(7):
        night(rig, made, [99.0, 100.0 + place / 10, 101.0])
    for _ in range(2):
        night(rig, made, [69.0, 70.0, 71.0], framework_version="2.14")
    return str(made)


def painted(text: str, colour: str) -> str:
    return text


def test_a_board_is_answered_by_name_and_by_id_and_among_all(rig: Rig) -> None:
    made = slowed(rig)
    page = rig.get("/nightly")
    assert page == rig.get("/nightly", schedule="nightly") == rig.get("/nightly", schedule=made, owner="nobody")
    (board,) = page["items"]
    assert (board["schedule_id"], board["schedule"], board["timezone"]) == (made, "nightly", "UTC")
    assert [one["trigger"] for one in board["nights"]] == ["manual"] * 9
    (cell,) = board["cells"]
    assert cell["axes"]["model"] == "net"
    assert [one["colour"] for one in cell["nights"]] == [*["green"] * 7, "amber", "amber"]
    last = cell["nights"][-1]
    assert last["throughput"]["value"] == pytest.approx(70.0, rel=1e-3)
    assert last["difference"]["value"] == pytest.approx(-0.3, abs=0.01)
    assert len(rig.get("/nightly", nights=2)["items"][0]["cells"][0]["nights"]) == 2
    assert rig.get("/nightly", owner="nobody")["items"] == []


def test_the_board_of_a_schedule_that_is_not_there_is_refused(rig: Rig) -> None:
    assert rig.http.get("/api/v1/nightly", params={"schedule": "nobody"}).status_code == 404
    assert rig.http.get("/api/v1/nightly", params={"schedule": "sch_nobody"}).status_code == 404


def test_everybody_who_may_read_sees_all_boards(rig: Rig) -> None:
    people = People(rig)
    people.call("ada", "POST", "/schedules", json=NIGHTLY)
    assert [one["owner"] for one in people.call("eve", "GET", "/nightly").json()["items"]] == ["ada"]
    assert rig.http.get("/api/v1/nightly").status_code == 401


def test_fourteen_nights_fit_into_eighty_columns_with_every_reason_below(rig: Rig) -> None:
    slowed(rig)
    (board,) = rig.get("/nightly")["items"]
    cell = board["cells"][0]
    board["nights"] = [
        board["nights"][0] | {"fire_at": f"2026-11-{day:02}T02:00:00Z", "state": "submitted"} for day in range(1, 15)
    ]
    board["nights"][5] |= {"state": "missed", "reason": "no server looked until 2026-11-07T09:00:00Z"}
    cell["nights"] = [cell["nights"][0]] * 13 + [cell["nights"][-1]]
    cell["nights"][5] = cell["nights"][0] | {"colour": "missing", "code": "missed"}
    cell["axes"] |= {"model": "a-model-of-a-long-name", "framework": "tensorflow", "per_device_batch_size": 1024}
    lines = list(board_lines(board, 80, painted))
    assert max(map(len, lines)) <= 80
    (grid,) = [line for line in lines if line.startswith("a-model-of-a-long-name tensorflow 1024")]
    assert grid.endswith("  G  G  G  G  G  -  G  G  G  G  G  G  G  ?")
    (head,) = [line for line in lines if line.startswith("model, framework, batch")]
    assert head.endswith("".join(f"{day:3d}" if day > 9 else f" 0{day}" for day in range(1, 15)))
    assert LEGEND in lines
    below = " ".join(line.strip() for line in lines[lines.index(LEGEND) + 1 :])
    assert "- 06 Nov 02:00: missed: no server looked until 2026-11-07T09:00:00Z" in below
    assert "? 14 Nov 02:00 a-model-of-a-long-name tensorflow 1024: suspect: looks slower: -30" in below.replace(
        "  ", " "
    )
    assert "with it changed: framework_version 2.13 → 2.14" in below


def test_nights_of_one_day_are_told_apart_and_reasons_in_a_row_once(rig: Rig) -> None:
    slowed(rig)
    (board,) = rig.get("/nightly", nights=5)["items"]
    for place, one in enumerate(board["nights"]):
        one["fire_at"] = f"2026-11-0{1 + place // 3}T{12 + place}:00:00Z"
    cell = board["cells"][0]
    gone = {"colour": "missing", "code": "no_such_cell", "reason": "the spec of that night had no such cell"}
    cell["nights"] = [cell["nights"][0] | gone] * 3 + cell["nights"][3:]
    lines = list(board_lines(board, 80, painted))
    head = [line.split() for line in lines if line.split()[-1:] in (["Nov"], ["02"], ["16"])]
    assert head == [["Nov"], ["01", "02"], ["model,", "framework,", "batch", "12", "13", "14", "15", "16"]]
    assert "- 01 Nov 12:00 to 01 Nov 14:00  net pytorch 4: no such cell: the spec of that night had no such cell" in (
        " ".join(line.strip() for line in lines)
    )


def test_the_gate_fails_for_what_is_confirmed_and_not_for_what_looks_slower(rig: Rig) -> None:
    slowed(rig)
    (board,) = rig.get("/nightly", nights=5)["items"]
    nights = board["cells"][0]["nights"]
    assert nights[-1]["code"] == "suspect"
    assert nightly._gate([board]) == DONE
    running = nights[0] | {"colour": "running", "code": "running"}
    for code, wanted in (("confirmed", REGRESSION), ("failed", FAILED)):
        board["cells"][0]["nights"] = [*nights[:4], nights[0] | {"colour": "red", "code": code}]
        assert nightly._gate([board]) == wanted
    board["cells"][0]["nights"] = [*nights[:4], running]
    assert nightly._gate([board]) == DONE  # of the last night that is over
    board["nights"][4] |= {"state": "missed"}
    assert nightly._gate([board]) == FAILED
    board["cells"][0]["nights"] = [running] * 5
    board["nights"][4] |= {"state": "submitted"}
    with pytest.raises(CommandError, match="no night is over: nightly"):
        nightly._gate([board])
    with pytest.raises(CommandError, match="no schedule"):
        nightly._gate([])
