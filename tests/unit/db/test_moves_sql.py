"""The SQL of a move and of inserts, on both databases: what decides a race stands in the statement itself."""

import pytest

from orchestrator.db import experiments, logs, runs
from orchestrator.db.schema import run
from orchestrator.db.statements import DIALECTS, Insert
from orchestrator.domain.run import IllegalMove, RunState

MOVED = {
    "sqlite": "UPDATE run SET state=? WHERE run.id = ? AND run.state = ? RETURNING experiment_id",
    "postgresql": "UPDATE run SET state=%s WHERE run.id = %s AND run.state = %s RETURNING run.experiment_id",
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_move_is_one_update_of_the_expected_state(dialect: str) -> None:
    statement = runs.move_statement("run_1", RunState.QUEUED, RunState.PLACING, {}).returning(run.c.experiment_id)

    compiled = statement.compile(dialect=DIALECTS[dialect])

    text = str(compiled).replace("::TEXT", "").replace("::VARCHAR", "").replace('COLLATE "C"', "")
    assert " ".join(text.split()) == MOVED[dialect]
    assert {*compiled.params.values()} == {"placing", "run_1", "queued"}


def test_no_statement_is_made_for_an_illegal_move() -> None:
    with pytest.raises(IllegalMove):
        runs.move_statement("run_1", RunState.COMPLETED, RunState.QUEUED, {})


@pytest.mark.parametrize("dialect", DIALECTS)
def test_entries_that_are_there_are_passed_over_by_the_database(dialect: str) -> None:
    text = logs.INSERT.texts[dialect]

    assert text.startswith("INSERT INTO entry (attempt_id, node, seq, kind, body) VALUES (")
    assert text.endswith("ON CONFLICT (attempt_id, node, seq) DO NOTHING")


def test_an_insert_takes_its_values_in_the_order_of_its_columns() -> None:
    assert experiments.INSERT.texts["sqlite"].count("?") == 9
    with pytest.raises(AssertionError, match="order"):
        Insert(run, "plan", "id")
