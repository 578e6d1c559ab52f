"""The schema: migrations make what ``schema.py`` says, newer ones are refused, every query has an index."""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, event, inspect, text

from orchestrator.db.connection import engine as engines
from orchestrator.db.opening import LookingStore
from orchestrator.db.store import SqlStore
from orchestrator.db.tables.schema import REVISION, metadata
from orchestrator.db.upgrade import admin
from orchestrator.domain.around.imported_points import ImportedFilter
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
from tests.benchmarks import filled
from tests.contract import store_scenes as scene
from tests.contract.postgresql_server import PostgresqlServer
from tests.unit import builders as make

pytest_plugins = ["tests.contract.store_servers"]


def connected(url: str) -> Iterator[Connection]:
    engine = create_engine(engines.parse_url(url))
    with engine.connect() as connection:
        yield connection
    engine.dispose()


@pytest.fixture
def migrated(url: str) -> Iterator[Connection]:
    yield from connected(url)


def test_the_migrated_schema_equals_the_tables(migrated: Connection) -> None:
    context = MigrationContext.configure(migrated, opts={"compare_type": True, "compare_server_default": True})

    assert compare_metadata(context, metadata) == []


def test_sqlite_s_migrated_schema_is_the_same_text(sqlite_url: str, tmp_path: Path) -> None:
    made = create_engine(f"sqlite:///{tmp_path / 'made.sqlite3'}")
    metadata.create_all(made)
    made.dispose()

    def definitions(path: str | Path) -> dict[str, str]:
        with sqlite3.connect(path) as connection:
            rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
        connection.close()
        return {name: " ".join(sql.split()) for name, sql in rows if name != "alembic_version"}

    assert definitions(sqlite_url.removeprefix("sqlite:///")) == definitions(tmp_path / "made.sqlite3")


def test_postgresql_s_migrated_schema_has_the_same_indexes_and_constraints(
    postgresql: PostgresqlServer, postgresql_url: str
) -> None:
    postgresql.execute("CREATE DATABASE made_from_metadata")
    try:
        made = create_engine(engines.parse_url(postgresql.url("made_from_metadata")))
        metadata.create_all(made)
        made.dispose()
        queries = (
            "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' AND tablename <> 'alembic_version'",
            "SELECT conrelid::regclass || conname || pg_get_constraintdef(oid) FROM pg_constraint"
            " WHERE connamespace = 'public'::regnamespace AND conrelid <> coalesce(to_regclass('alembic_version'), 0)",
            "SELECT table_name || column_name || data_type || is_nullable || coalesce(collation_name, '')"
            " || coalesce(column_default, '') FROM information_schema.columns"
            " WHERE table_schema = 'public' AND table_name <> 'alembic_version'",
        )

        def answers(url: str) -> list[list[str]]:
            for connection in connected(url):
                return [sorted(connection.execute(text(query)).scalars()) for query in queries]
            raise AssertionError

        assert answers(postgresql_url) == answers(postgresql.url("made_from_metadata"))
    finally:
        postgresql.execute("DROP DATABASE made_from_metadata WITH (FORCE)")


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


def test_a_migration_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    versions = tmp_path / "migrations"
    shutil.copytree(admin._MIGRATIONS, versions)
    first = versions / "versions" / "v0001_first.py"
    first.write_text(first.read_text().replace('    op.execute("INSERT', '    op.execute("INZERT'))
    monkeypatch.setattr(admin, "_MIGRATIONS", versions)
    url = f"sqlite:///{tmp_path / 'tbd.sqlite3'}"

    with pytest.raises(Exception, match="INZERT"):
        admin.upgrade(url)

    for connection in connected(url):
        assert inspect(connection).get_table_names() == []


def test_who_only_looks_reads_the_same_writes_nothing_and_upgrades_nothing(url: str) -> None:
    store = SqlStore(url)
    scene.submitted(store, runs=2)
    looked = LookingStore(url)
    assert looked.experiments() == store.experiments()
    assert looked.runs() == store.runs()
    looked.keep_points([])
    with pytest.raises(StoreUnavailable, match="without a server"):
        looked.order_node("n0", None)
    with pytest.raises(StoreUnavailable, match=r"read-?only"):
        looked.database.read(lambda connection: connection.execute(text("DELETE FROM change")))
    store.close()
    looked.close()
    for connection in connected(url):
        connection.execute(text("UPDATE alembic_version SET version_num = '0001'"))
        connection.commit()
    with pytest.raises(StoreUnavailable, match="has schema 0001"):
        LookingStore(url).experiments()
    assert admin.current(url) == "0001"


def test_a_schema_of_a_newer_version_is_refused_and_not_touched(url: str) -> None:
    for connection in connected(url):
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        connection.commit()

    for attempt in (SqlStore, admin.upgrade, admin.check):
        with pytest.raises(SettingsError, match=r"9999.*newer"):
            attempt(url)
    assert admin.current(url) == "9999"


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
    "cancel": lambda store, exp, run, att: store.cancel_experiment(exp, 1.0),
    "last seqs": lambda store, exp, run, att: store.last_seqs(att),
    "entries": lambda store, exp, run, att: store.entries(att),
    "entries after": lambda store, exp, run, att: store.entries(att, node="n0", after=5),
    "entries of a kind": lambda store, exp, run, att: store.entries(att, kinds=["interval"]),
    "exchanges": lambda store, exp, run, att: store.transfers(),
    "exchanges of a run": lambda store, exp, run, att: store.transfers(TransferFilter(run_id=run)),
    "exchanges of an experiment": lambda store, exp, run, att: store.transfers(
        TransferFilter(owner="ada", experiment_id=exp)
    ),
    "profiles": lambda store, exp, run, att: store.profiles(run),
    "calibrations": lambda store, exp, run, att: store.calibrations(),
    "calibrations of a run": lambda store, exp, run, att: store.calibrations(CalibrationFilter(run_id=run)),
    "calibrated": lambda store, exp, run, att: store.calibrated([DeviceKey("n0", "cpu:0", "a cpu", 1)], "fp32"),
    "tokens": lambda store, exp, run, att: store.tokens(),
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
    "imported series": lambda store, exp, run, att: store.imported_series(),
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
            if statement.startswith(("SELECT", "UPDATE", "WITH", "\nWITH"))
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
        "schedule",
        "fire",
        "origin",
        "imported_point",
    )
    tables += ("profile", "profile_missing", "memory_class", "kernel", "layer", "gradient_exchange")
    whole = [step for step, _ in steps if step in {f"SCAN {table}" for table in tables}]
    assert whole == []


def test_what_cells_needs_and_counts_say_is_made_of_the_runs_of_an_older_schema(url: str) -> None:
    """Down to 0005, which has none of them, and up again: they say what the store itself wrote."""
    store = SqlStore(url)
    filled.fill(store, ended=3, queued=3, large_runs=40)
    _, (run,) = scene.submitted(store)
    scene.brought_to(store, run, RunState.COLLECTING)
    on_a_gpu = {"workload": {"device": "cuda", "device_models": ["NVIDIA H100"]}}
    store.conclude(run.id, RunState.COMPLETED, at=3000.0, analysis=make.analysis(), fingerprint=on_a_gpu)
    store.close()
    columns = "experiment_id, owner, created_at, cell_key, model, framework, device_models"  # older cells come by age
    queries = (f"SELECT {columns} FROM cell ORDER BY 1, 4", "SELECT id, needs FROM run ORDER BY id")
    queries += (
        "SELECT * FROM run_count WHERE runs > 0 ORDER BY experiment_id, state",
        "SELECT id FROM cell ORDER BY id",
    )

    def told() -> list[list[tuple[Any, ...]]]:
        for connection in connected(url):
            return [[tuple(row) for row in connection.execute(text(query))] for query in queries]
        raise AssertionError

    before = told()
    for connection in connected(url):
        configuration = admin._configuration()
        configuration.attributes["connection"] = connection
        command.downgrade(configuration, "0005")
        connection.commit()
    assert admin.upgrade(url) == ("0005", REVISION)
    assert told() == before
    assert any("nvidia h100" in map(str, row) for row in before[0])
