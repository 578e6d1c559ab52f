"""The SQL of a move and of inserts, on both databases: what decides a race stands in the statement itself. And no
statement has a parameter for each of many values."""

import ast
from pathlib import Path

import pytest

from orchestrator import db
from orchestrator.db.connection import among
from orchestrator.db.connection.statements import DIALECTS, Insert
from orchestrator.db.experiment import experiments
from orchestrator.db.run import logs, runs
from orchestrator.db.tables.schema import run
from orchestrator.domain.runs.run import IllegalMove, RunState

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
    assert experiments.INSERT.texts["sqlite"].count("?") == 11
    with pytest.raises(AssertionError, match="order"):
        Insert(run, "plan", "id")


def is_written_down(values: ast.expr) -> bool:
    """A list that stands in the code, or one made of a constant or an enumeration."""
    if isinstance(values, ast.ListComp):
        values = values.generators[0].iter
    return isinstance(values, ast.List) or (isinstance(values, ast.Name) and values.id.lstrip("_")[0].isupper())


def with_a_parameter_for_each(text: str) -> list[int]:
    """The lines where ``in_`` is given what is not written down."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    ins = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr in ("in_", "not_in")]
    return [call.lineno for call in ins if not is_written_down(call.args[0])]


def test_values_that_may_be_many_are_one_parameter() -> None:
    own = Path(among.__file__)
    paths = [path for path in Path(db.__file__).parent.rglob("*.py") if path != own and "migrations" not in path.parts]
    found = {str(path): with_a_parameter_for_each(path.read_text()) for path in paths}
    assert len(found) > 30
    assert {name: lines for name, lines in found.items() if lines} == {}
    assert with_a_parameter_for_each("run.c.id.in_(ids)\nrun.c.id.in_([i for i in ids])\nrun.c.id.in_(OPEN)") == [1, 2]
