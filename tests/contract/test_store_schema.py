"""The schema: a new database gets it whole, one of an unknown schema is refused, every query has an index."""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, event, inspect, text

from orchestrator.db.connection import engine as engines
from orchestrator.db.opening import LookingStore
from orchestrator.db.store import SqlStore
from orchestrator.db.tables.schema import REVISION
from orchestrator.db.upgrade import admin
from orchestrator.domain.around.alerts import AlertFilter
from orchestrator.domain.around.imported_points import ImportedFilter
from orchestrator.domain.around.predictions import PredictionFilter
from orchestrator.domain.runs.filters import (
    CalibrationFilter,
    CellFilter,
    ExperimentFilter,
    FireFilter,
    RunFilter,
    ScheduleFilter,
    TransferFilter,
)
from orchestrator.domain.runs.run import ExperimentState, RunState
from orchestrator.domain.value.calibration import DeviceKey
from orchestrator.domain.words.errors import SettingsError, StoreUnavailable
from tests.contract import store_scenes as scene

pytest_plugins = ["tests.contract.store_servers"]


def connected(url: str) -> Iterator[Connection]:
    engine = create_engine(engines.parse_url(url))
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def test_the_revision_in_the_code_is_the_newest_migration() -> None:
    assert ScriptDirectory.from_config(admin._configuration()).get_current_head() == REVISION


def test_an_empty_database_is_brought_up_to_date_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'deep' / 'er' / 'tbd.sqlite3'}"

    assert admin.current(url) is None
    assert "empty" in admin.check(url)
    assert not (tmp_path / "deep").exists()  # looking makes nothing
    assert admin.upgrade(url) == (None, REVISION)
    assert admin.upgrade(url) == (REVISION, REVISION)
    assert admin.current(url) == REVISION
    assert "as this version" in admin.check(url)


@pytest.fixture
def migrations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the migrations, for a test to change, and the folder that is read."""
    folder = tmp_path / "migrations"
    shutil.copytree(admin._MIGRATIONS, folder)
    monkeypatch.setattr(admin, "_MIGRATIONS", folder)
    return folder / "versions"


def test_a_migration_that_fails_leaves_nothing_behind(migrations: Path, tmp_path: Path) -> None:
    first = migrations / "v0001_first.py"
    first.write_text(first.read_text().replace('    op.execute("INSERT', '    op.execute("INZERT'))
    url = f"sqlite:///{tmp_path / 'tbd.sqlite3'}"

    with pytest.raises(Exception, match="INZERT"):
        admin.upgrade(url)

    for connection in connected(url):
        assert inspect(connection).get_table_names() == []


def test_a_later_migration_runs_on_what_was_there_before_and_not_on_a_new_database(
    url: str, migrations: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = (migrations / "v0001_first.py").read_text().split("def upgrade")[0]
    later = later.replace('revision = "v0001"', 'revision = "v9999"').replace("= None", f'= "{REVISION}"', 1)
    later += 'def upgrade() -> None:\n    op.execute("CREATE TABLE later (id INTEGER)")\n'
    (migrations / "v9999_later.py").write_text(later)
    monkeypatch.setattr(admin, "REVISION", "v9999")
    new = f"sqlite:///{tmp_path / 'new.sqlite3'}"

    assert admin.upgrade(url) == (REVISION, "v9999")
    assert admin.upgrade(new) == (None, "v9999")

    for one, has_later in ((url, True), (new, False)):
        assert admin.current(one) == "v9999"
        for connection in connected(one):
            assert ("later" in inspect(connection).get_table_names()) == has_later


def test_migrations_make_of_the_first_schema_what_a_new_database_has(url: str) -> None:
    later = ("session", "time_series", "alert", "delivery", "webhook", "message", "device_event", "owner_use")
    columns = (
        ("attempt", "fence_s"),
        ("attempt", "alive_at"),
        ("attempt", "lent_by"),
        ("attempt", "thinned_at"),
        ("experiment", "deadline_at"),
        ("run", "owner"),
    )
    SqlStore(url).close()

    def described() -> list[Any]:
        found: list[Any] = []
        for connection in connected(url):
            looked = inspect(connection)
            for table in (*later, *{table for table, _ in columns}):
                found += [(one["name"], str(one["type"]), one["nullable"]) for one in looked.get_columns(table)]
                found += [(one["constrained_columns"], one["referred_table"]) for one in looked.get_foreign_keys(table)]
                found += sorted((one["name"], one["column_names"]) for one in looked.get_indexes(table))
        return found

    new = described()
    for connection in connected(url):
        for table in later:
            connection.execute(text(f"DROP TABLE {table}"))
        for index in ("ix_run_queue", "ix_attempt_ended"):
            connection.execute(text(f"DROP INDEX {index}"))
        order = "state, cancel_requested, paused, needs, priority DESC, created_at, id"
        connection.execute(text(f"CREATE INDEX ix_run_queue ON run ({order})"))
        for table, column in columns:
            connection.execute(text(f"ALTER TABLE {table} DROP COLUMN {column}"))
        connection.execute(text("UPDATE alembic_version SET version_num = 'v0001'"))
        connection.commit()
    assert admin.upgrade(url) == ("v0001", REVISION)
    assert described() == new


def test_who_only_looks_reads_the_same_writes_nothing_and_upgrades_nothing(url: str) -> None:
    store = SqlStore(url)
    scene.submitted(store, runs=2)
    looked = LookingStore(url)
    assert looked.experiments() == store.experiments()
    assert looked.runs() == store.runs()
    with pytest.raises(StoreUnavailable, match="without a server"):
        looked.order_node("n0", None)
    with pytest.raises(StoreUnavailable, match=r"read-?only"):
        looked.database.read(lambda connection: connection.execute(text("DELETE FROM change")))
    store.close()
    looked.close()


@pytest.mark.parametrize(("found", "by"), [("9999", "newer"), ("0001", "before the first release"), ("0014", "export")])
def test_a_schema_that_this_version_does_not_know_is_refused_and_not_touched(url: str, found: str, by: str) -> None:
    for connection in connected(url):
        connection.execute(text("UPDATE alembic_version SET version_num = :found"), {"found": found})
        connection.commit()

    for attempt in (SqlStore, admin.upgrade, admin.check):
        with pytest.raises(SettingsError, match=f"{found}.*{by}"):
            attempt(url)
    with pytest.raises(StoreUnavailable, match=f"has schema {found}.*{by}"):
        LookingStore(url).experiments()
    assert admin.current(url) == found


@pytest.mark.parametrize("url", ["", "nonsense", "mysql://host/tbd", "sqlite://", "sqlite:///:memory:"])
def test_a_url_that_cannot_be_used_is_refused_with_the_variable_s_name(url: str) -> None:
    with pytest.raises(SettingsError, match="TBD_DATABASE_URL"):
        SqlStore(url)


QUERIES: dict[str, Callable[[SqlStore, str, str, str], Any]] = {
    "experiment": lambda store, exp, run, att: store.experiment(exp),
    "experiments": lambda store, exp, run, att: store.experiments(),
    "experiments by owner": lambda store, exp, run, att: store.experiments(ExperimentFilter(owner="ada")),
    "experiments by name": lambda store, exp, run, att: store.experiments(ExperimentFilter(name="test")),
    "experiments by state": lambda store, exp, run, att: store.experiments(
        ExperimentFilter(state=ExperimentState.ACTIVE)
    ),
    "experiments, the oldest first": lambda store, exp, run, att: store.experiments(
        ExperimentFilter(oldest_first=True)
    ),
    "experiments by label": lambda store, exp, run, att: store.experiments(ExperimentFilter(label=("a", "b"))),
    "idle experiments": lambda store, exp, run, att: store.idle_experiments(),
    "run": lambda store, exp, run, att: store.run(run),
    "runs": lambda store, exp, run, att: store.runs(),
    "runs of an experiment": lambda store, exp, run, att: store.runs(RunFilter(experiment_id=exp)),
    "runs by state": lambda store, exp, run, att: store.runs(RunFilter(state=RunState.FAILED)),
    "runs by model": lambda store, exp, run, att: store.runs(RunFilter(model="net")),
    "runs by label": lambda store, exp, run, att: store.runs(RunFilter(label=("a", "b"))),
    "runs by framework": lambda store, exp, run, att: store.runs(RunFilter(framework="pytorch")),
    "runs of a cell": lambda store, exp, run, att: store.runs_of_cell(exp, "cell"),
    "verdicts": lambda store, exp, run, att: store.verdicts_of(exp),
    "earlier runs": lambda store, exp, run, att: store.earlier_runs(["cell"], 5),
    "cells": lambda store, exp, run, att: store.cells(),
    "cells by owner": lambda store, exp, run, att: store.cells(CellFilter(owner="ada")),
    "cells of an experiment": lambda store, exp, run, att: store.cells(CellFilter(experiment_id=exp)),
    "cells by label": lambda store, exp, run, att: store.cells(CellFilter(label=("a", "b"))),
    "cells of a series": lambda store, exp, run, att: store.cells(CellFilter(series="w", since=1.0, until=9.0)),
    "cells by names": lambda store, exp, run, att: store.cells(
        CellFilter(model="net", framework="pytorch", gpu_model="H100")
    ),
    "all runs of an experiment": lambda store, exp, run, att: store.runs_of(exp),
    "open runs": lambda store, exp, run, att: store.open_runs(5),
    "queue": lambda store, exp, run, att: store.queue_heads(5),
    "queue in short": lambda store, exp, run, att: store.queue(5),
    "cancel": lambda store, exp, run, att: store.cancel_experiment(exp, 1.0),
    "last seqs": lambda store, exp, run, att: store.last_seqs(att),
    "entries": lambda store, exp, run, att: store.entries(att),
    "entries after": lambda store, exp, run, att: store.entries(att, node="n0", after=5),
    "entries of a kind": lambda store, exp, run, att: store.entries(att, kinds=["interval"]),
    "old readings": lambda store, exp, run, att: store.with_old_readings(9.0, 5),
    "thin": lambda store, exp, run, att: store.thin(att, 9.0),
    "exchanges": lambda store, exp, run, att: store.transfers(),
    "exchanges of a run": lambda store, exp, run, att: store.transfers(TransferFilter(run_id=run)),
    "exchanges of an experiment": lambda store, exp, run, att: store.transfers(
        TransferFilter(owner="ada", experiment_id=exp)
    ),
    "last changes": lambda store, exp, run, att: store.last_changes([exp]),
    "newest change": lambda store, exp, run, att: store.newest_change(),
    "profiles": lambda store, exp, run, att: store.profiles(run),
    "time series": lambda store, exp, run, att: store.time_series(run, 1.0, 9.0, 800),
    "calibrations": lambda store, exp, run, att: store.calibrations(),
    "calibrations of a run": lambda store, exp, run, att: store.calibrations(CalibrationFilter(run_id=run)),
    "calibrated": lambda store, exp, run, att: store.calibrated([DeviceKey("n0", "cpu:0", "a cpu", 1)], "fp32"),
    "tokens": lambda store, exp, run, att: store.tokens(),
    "sessions": lambda store, exp, run, att: store.sessions(5.0),
    "deeds": lambda store, exp, run, att: store.deeds(),
    "deeds by who": lambda store, exp, run, att: store.deeds(who="ada"),
    "deeds by target": lambda store, exp, run, att: store.deeds(target=exp),
    "experiments of a schedule": lambda store, exp, run, att: store.experiments(ExperimentFilter(schedule="sch_1")),
    "schedules": lambda store, exp, run, att: store.schedules(),
    "schedules by owner": lambda store, exp, run, att: store.schedules(ScheduleFilter(owner="ada")),
    "schedules by name": lambda store, exp, run, att: store.schedules(ScheduleFilter(name="nightly")),
    "schedules due": lambda store, exp, run, att: store.schedules_due(5.0),
    "schedules ahead": lambda store, exp, run, att: store.schedules_ahead(5.0),
    "fires": lambda store, exp, run, att: store.fires(FireFilter("sch_1", since=1.0, until=9.0)),
    "fires by state": lambda store, exp, run, att: store.fires(FireFilter("sch_1", state="missed")),
    "last fires": lambda store, exp, run, att: store.last_fires(["sch_1", "sch_2"]),
    "waiting fires": lambda store, exp, run, att: store.waiting_fires(),
    "active of a schedule": lambda store, exp, run, att: store.active_of_schedule("sch_1"),
    "imported": lambda store, exp, run, att: store.imported(),
    "imported by owner": lambda store, exp, run, att: store.imported(ImportedFilter(owner="ada")),
    "imported of a series": lambda store, exp, run, att: store.imported(ImportedFilter(series="imported-0")),
    "series": lambda store, exp, run, att: store.series(),
    "alerts": lambda store, exp, run, att: store.alerts(),
    "alerts in a state": lambda store, exp, run, att: store.alerts(AlertFilter(state="trying")),
    "alerts of a schedule": lambda store, exp, run, att: store.alerts(AlertFilter(schedule_id="sch_1")),
    "webhooks": lambda store, exp, run, att: store.webhooks(),
    "untold alerts": lambda store, exp, run, att: store.untold_alerts(),
    "due webhooks": lambda store, exp, run, att: store.due_webhooks(5.0),
    "due deliveries": lambda store, exp, run, att: store.due_deliveries("whk_1", 5.0, 9),
    "predictions": lambda store, exp, run, att: store.predictions(),
    "predictions by owner": lambda store, exp, run, att: store.predictions(PredictionFilter(owner="ada")),
    "predictions of a strategy": lambda store, exp, run, att: store.predictions(
        PredictionFilter(framework="pytorch", strategy="ddp")
    ),
    "find": lambda store, exp, run, att: store.find("exp_0"),
    "changes": lambda store, exp, run, att: store.changes(exp, after=5),
}


@pytest.mark.parametrize("name", QUERIES)
def test_no_query_walks_a_whole_table(sqlite_url: str, name: str) -> None:
    store = SqlStore(sqlite_url)
    experiment, (run, _) = scene.submitted(store, runs=2)
    attempt = scene.brought_to(store, run, RunState.RUNNING)
    assert attempt is not None
    asked: list[tuple[str, Any]] = []

    def listen(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        asked.append((statement, parameters))

    event.listen(store.database._readers, "before_cursor_execute", listen)  # type: ignore[attr-defined]
    event.listen(store.database._writers, "before_cursor_execute", listen)  # type: ignore[attr-defined]
    try:
        QUERIES[name](store, experiment.id, run.id, attempt.id)
    finally:
        store.close()

    with sqlite3.connect(sqlite_url.removeprefix("sqlite:///")) as connection:
        steps = [
            (row[3], statement)
            for statement, parameters in asked
            if statement.startswith(("SELECT", "UPDATE", "DELETE", "WITH", "\nWITH"))
            for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
        ]
    connection.close()
    assert steps
    tables = (
        "experiment",
        "label",
        "run",
        "attempt",
        "result",
        "entry",
        "change",
        "exchange",
        "calibration",
        "cell",
        "waiting",
        "token",
        "deed",
        "session",
        "schedule",
        "fire",
        "origin",
        "imported_point",
        "prediction",
        "alert",
        "message",
        "delivery",
        "profile",
        "time_series",
    )
    whole = [step for step, _ in steps if step in {f"SCAN {table}" for table in tables}]
    assert whole == []
