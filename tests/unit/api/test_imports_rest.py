"""Histories of other tools over REST: all or nothing, once, marked, with owners."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text as sql

from tests.support.milabench.files import archive, event, lines
from tests.unit.api.api_rig import MAX_LOG_BYTES, Rig
from tests.unit.api.test_access_rest import add, bearing

TAR = {"Content-Type": "application/x-tar"}
SAMPLES = Path(__file__).resolve().parents[2] / "support" / "milabench" / "rijubigo"


def a_run(**more: Any) -> dict[str, bytes]:
    """The files of a run on two devices."""
    return {f"run/resnet50.D{n}.data": b"".join(lines(device=n, devices=[n], **more)) for n in (0, 1)}


def send(rig: Rig, files: dict[str, bytes] | bytes, **parameters: Any) -> Any:
    content = files if isinstance(files, bytes) else archive(files)
    asked = {"tool": "milabench"} | parameters
    return rig.http.post("/api/v1/imports", params=asked, content=content, headers=TAR)


def test_a_run_becomes_a_point_that_is_marked_as_imported(rig: Rig) -> None:
    answer = send(rig, a_run(), name="cluster-a")
    assert answer.status_code == 201, answer.text
    (identifier,) = answer.json()["added"]
    (point,) = rig.get("/imports")["items"]
    assert (point["id"], point["is_imported"], point["owner"]) == (identifier, True, "local")
    assert (point["tool"], point["tool_version"], point["source"]) == ("milabench", "v1.1.0", "cluster-a")
    assert (point["throughput"]["value"], point["throughput"]["unit"]) == (100.0, "items/s")
    assert point["throughput"]["method"].startswith("milabench: ")
    assert point["at"] == "2025-04-15T16:04:09.500000Z"
    assert [one["devices"] for one in point["processes"]] == [[0], [1]]
    assert "grade" not in point
    assert [one["action"] for one in rig.get("/audit")["items"]] == ["import milabench"]


def test_the_same_files_again_add_nothing(rig: Rig) -> None:
    first = send(rig, a_run()).json()
    again = send(rig, dict(reversed(a_run().items()))).json()
    assert (again["added"], again["already_there"]) == ([], first["added"])
    assert len(rig.get("/imports")["items"]) == 1
    assert len(rig.get("/audit")["items"]) == 1


def test_another_run_of_the_same_name_is_refused_and_nothing_of_it_stored(rig: Rig) -> None:
    send(rig, a_run())
    other = a_run(rates=(5.0,)) | {"run/bert.D0.data": b"".join(lines(name="bert"))}
    answer = send(rig, other)
    assert answer.status_code == 409
    assert "tbd rm imp_" in answer.json()["detail"]
    assert [one["benchmark"] for one in rig.get("/imports")["items"]] == ["resnet50"]
    assert send(rig, other, name="elsewhere").status_code == 201


def test_one_bad_file_of_many_keeps_all_out(rig: Rig) -> None:
    answer = send(rig, a_run() | {"run/z.data": b"{}\n"})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/run~1z.data/1")
    assert rig.get("/imports")["items"] == []
    assert rig.get("/audit")["items"] == []


def test_what_tells_of_no_run_is_skipped_with_its_reason(rig: Rig) -> None:
    files = a_run() | {
        "run/skipped-nodes.data": event("message", {"message": "Skip it"}),
        "run/never.D0.data": b"".join(lines()[:2]),
        "run/notes.txt": b"not looked at",
    }
    answer = send(rig, files).json()
    assert {one["file"] for one in answer["skipped"]} == {"run/skipped-nodes.data", "run/never.D0.data"}
    assert len(answer["added"]) == 1


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "it is no tar archive"),
        (b"nonsense" * 200, "it is no tar archive"),
        (archive(a_run())[:1500], "it is no tar archive"),
        (archive({}), "there is no *.data file"),
        (archive({"a.txt": b""}), "there is no *.data file"),
        (archive({"a.data": b""}), "none of the 1 files tells of a run"),
    ],
    ids=["nothing", "nonsense", "cut short", "empty", "no data", "no run"],
)
def test_what_is_no_archive_of_results_is_refused(rig: Rig, content: bytes, text: str) -> None:
    answer = send(rig, content)
    assert answer.status_code == 422
    assert text in answer.json()["errors"][0]["detail"]


def test_an_archive_over_the_limit_of_logs_is_refused(rig: Rig) -> None:
    assert send(rig, {"a.data": b" " * MAX_LOG_BYTES}).status_code == 413


def test_a_name_that_cannot_be_shown_is_refused(rig: Rig) -> None:
    answer = send(rig, a_run(), name="a\nb")
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/name")


def test_names_in_an_archive_lead_nowhere(rig: Rig, tmp_path: Path) -> None:
    files = {"../../outside.data": b"".join(lines())}
    assert send(rig, files).status_code == 201
    assert not list(tmp_path.parent.glob("outside*"))


def test_points_are_found_by_series_and_paged_latest_session_first(rig: Rig) -> None:
    for day in range(3):
        start = event("start", {"time": 1e9 + day})
        content = b"".join([*lines(run_name=f"night-{day}")[:2], start, *lines()[3:]])
        assert send(rig, {"x.data": content}).status_code == 201
    send(rig, {"x.data": b"".join(lines(name="bert"))})
    series = rig.get("/imports", benchmark="resnet50")["items"][0]["series"]
    first = rig.get("/imports", series=series, limit=2)
    second = rig.get("/imports", series=series, limit=2, cursor=first["next_cursor"])
    assert [one["session"] for one in first["items"] + second["items"]] == ["night-2", "night-1", "night-0"]


def test_a_point_is_removed_by_its_owner_only(rig: Rig) -> None:
    (identifier,) = send(rig, a_run()).json()["added"]
    root, eve = bearing(add(rig, "admin", "root")), bearing(add(rig, "submit", "eve"))
    path = f"/api/v1/imports/{identifier}"
    assert rig.http.delete(path, headers=eve).status_code == 403
    assert rig.http.delete(path, headers=root).status_code == 204
    assert rig.http.delete(path, headers=root).status_code == 404


def test_a_damaged_point_is_told_in_lists_and_can_be_removed(rig: Rig) -> None:
    (identifier,) = send(rig, a_run()).json()["added"]
    rig.store.database.write(lambda connection: connection.execute(sql("UPDATE imported_point SET found = '['")))
    page = rig.get("/imports")
    assert page["items"] == []
    assert page["damaged"][0]["way_out"] == f"tbd rm {identifier}"
    assert rig.http.delete(f"/api/v1/imports/{identifier}").status_code == 204


def test_milabench_s_own_sample_is_one_point_of_four_processes(rig: Rig) -> None:
    files = {f"rijubigo/{path.name}": path.read_bytes() for path in SAMPLES.glob("*.data")}
    assert len(send(rig, files).json()["added"]) == 1
    (point,) = rig.get("/imports")["items"]
    assert (point["throughput"]["n"], point["workload"]["method"], point["workload"]["device_models"]) == (
        4,
        "njobs",
        [],
    )
