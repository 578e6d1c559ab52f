"""The contract of the store: points that other tools measured. On SQLite and on PostgreSQL."""

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text

from orchestrator.db.store import SqlStore
from orchestrator.db.upgrade import admin
from orchestrator.domain.around.access import Deed
from orchestrator.domain.around.imported_points import ImportedFilter, ImportedPoint, ImportedProcess, id_of, series_of
from orchestrator.domain.runs.filters import SeriesFilter
from orchestrator.domain.value.measurement import Measurement
from orchestrator.domain.words.errors import Conflict, InvalidRequest, NotFound
from orchestrator.services.clock import new_id

pytest_plugins = ["tests.contract.store_servers"]


def a_point(session: str = "s1", **fields: Any) -> ImportedPoint:
    workload = {"tool": "milabench", "benchmark": "resnet50"}
    made = ImportedPoint(
        id=id_of("milabench", "", session, "resnet50"),
        owner="ada",
        source="",
        tool="milabench",
        tool_version=None,
        series=series_of(workload),
        session=session,
        benchmark="resnet50",
        at=1000.0,
        ended_at=None,
        throughput=Measurement("throughput", 100.0, "items/s", "mean"),
        reason=None,
        workload=workload,
        subject={"torch": "2.6"},
        rig={},
        processes=(ImportedProcess("a.data", (0,), 5, 100.0, 99.0, 101.0, 0, None),),
        digest="d",
        imported_at=5000.0,
    )
    return replace(made, **fields)


def a_deed() -> Deed:
    return Deed(new_id("deed"), 1.0, "ada", None, None, "import", "points")


def test_points_come_back_as_they_were_stored(store: SqlStore) -> None:
    whole, without = a_point(), a_point("s2", at=2000.0, throughput=None, reason="it ended with return code 1")
    assert store.add_imported([whole, without], a_deed()) == ((whole.id, without.id), ())
    assert store.imported().items == [without, whole]


def test_the_same_point_adds_nothing_and_no_deed(store: SqlStore) -> None:
    store.add_imported([a_point()], a_deed())
    again = store.add_imported([a_point(imported_at=9000.0)], a_deed())
    assert again == ((), (a_point().id,))
    assert store.imported().items == [a_point()]
    assert len(store.deeds().items) == 1


def test_a_point_of_other_files_is_refused_with_all_that_came_with_it(store: SqlStore) -> None:
    store.add_imported([a_point()], a_deed())
    with pytest.raises(Conflict, match="made of other files"):
        store.add_imported([a_point("s2"), a_point(digest="other")], a_deed())
    assert store.imported().items == [a_point()]
    assert len(store.deeds().items) == 1


def test_points_are_found_and_paged_the_latest_session_first(store: SqlStore) -> None:
    points = [a_point(f"s{n}", at=1000.0 + n, owner="ada" if n else "bob") for n in range(5)]
    other = a_point("o", series="imported-other", source="x")
    store.add_imported([*points, other], a_deed())
    assert [one.session for one in store.imported(ImportedFilter(owner="bob")).items] == ["s0"]
    assert store.imported(ImportedFilter(series="imported-other", source="x")).items == [other]
    seen, cursor = [], None
    while True:
        page = store.imported(ImportedFilter(series=points[0].series), limit=2, cursor=cursor)
        seen += page.items
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == list(reversed(points))
    with pytest.raises(InvalidRequest):
        store.imported(cursor="nonsense")


def test_points_of_one_key_are_one_series(store: SqlStore) -> None:
    points = [a_point("s1", at=1000.0), a_point("s2", at=3000.0), a_point("s3", at=2000.0, series="imported-x")]
    store.add_imported(points, a_deed())
    found = store.series()
    assert [(one.key, one.n_points, one.first_at, one.last_at) for one in found.items] == [
        (points[0].series, 2, 1000.0, 3000.0),
        ("imported-x", 1, 2000.0, 2000.0),
    ]
    assert found.items[0].workload == points[0].workload
    assert [one.key for one in store.series(SeriesFilter(owner="ada", key="imported-x")).items] == ["imported-x"]
    assert store.series(SeriesFilter(owner="bob")).items == store.series(SeriesFilter(model="resnet50")).items == []
    first = store.series(limit=1)
    assert [one.key for one in store.series(limit=1, cursor=first.next_cursor).items] == ["imported-x"]


def test_a_point_is_removed_once(store: SqlStore) -> None:
    store.add_imported([a_point()], a_deed())
    assert store.owner_of_imported(a_point().id) == "ada"
    store.remove_imported(a_point().id, a_deed())
    with pytest.raises(NotFound):
        store.remove_imported(a_point().id, a_deed())
    with pytest.raises(NotFound):
        store.owner_of_imported(a_point().id)
    assert len(store.deeds().items) == 2


def test_a_damaged_point_spoils_no_other_and_the_check_finds_it(store: SqlStore, url: str) -> None:
    whole, bad = a_point(), a_point("s2")
    store.add_imported([whole, bad], a_deed())
    damage = text("UPDATE imported_point SET found = replace(found, '100.0', '\"fast\"') WHERE id = :id")
    store.database.write(lambda connection: connection.execute(damage, {"id": bad.id}))
    page = store.imported()
    assert (page.items, [one.id for one in page.damaged]) == ([whole], [bad.id])
    assert [one.key for one in store.series().items] == [whole.series] == [bad.series]
    found = admin.damaged(url)
    assert [(one.table, one.way_out) for one in found] == [("imported_point", f"tbd rm {bad.id}")]
