"""What a page of a list costs, counted in steps of SQLite's machine: what it answers, and not what is stored."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from bench import filled
from orchestrator.db.store import SqlStore
from orchestrator.domain.runs.filters import CellFilter, ExperimentFilter, RunFilter
from orchestrator.domain.runs.run import ExperimentState, RunState

pytestmark = pytest.mark.xdist_group("costs")  # what is stored is made once

LIMIT = 5
STEP = 10  # the machine is looked at after so many of its steps


class Counted:
    """A store on SQLite that counts what reading costs."""

    def __init__(self, path: Path) -> None:
        self.store = SqlStore(f"sqlite:///{path}")
        self.steps = 0
        self.statements = 0
        engine = self.store.database._readers  # type: ignore[attr-defined]
        event.listen(engine, "connect", lambda connection, _: connection.set_progress_handler(self._step, STEP))
        event.listen(engine, "before_cursor_execute", self._statement)

    def _step(self) -> int:
        self.steps += STEP
        return 0

    def _statement(self, *_: Any) -> None:
        self.statements += 1

    def cost(self, ask: Callable[[SqlStore], Any]) -> tuple[int, int]:
        """(steps, statements) of a question that was asked before, so that statements are prepared."""
        ask(self.store)
        self.steps = self.statements = 0
        assert ask(self.store)
        return self.steps, self.statements


@pytest.fixture(scope="module")
def few_and_many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Counted, Counted]]:
    folder = tmp_path_factory.mktemp("costs")
    few, many = Counted(folder / "few.sqlite3"), Counted(folder / "many.sqlite3")
    filled.fill(few.store, ended=2, queued=2 * LIMIT, large_runs=100)
    filled.fill(many.store, ended=2, queued=10 * LIMIT, large_runs=1000)
    yield few, many
    few.store.close()
    many.store.close()


def newest(store: SqlStore) -> str:
    return store.experiments(limit=1).items[0].id


def second_page(ask: Callable[..., Any]) -> Any:
    return ask(limit=LIMIT, cursor=ask(limit=LIMIT).next_cursor)


PAGES: dict[str, Callable[[SqlStore], Any]] = {
    "experiments": lambda store: store.experiments(ExperimentFilter(), limit=LIMIT),
    "experiments that go on": lambda store: store.experiments(
        ExperimentFilter(state=ExperimentState.ACTIVE), limit=LIMIT
    ),
    "experiments by name": lambda store: store.experiments(ExperimentFilter(name="stored-3"), limit=1),
    "runs": lambda store: store.runs(RunFilter(), limit=LIMIT),
    "runs that wait": lambda store: store.runs(RunFilter(state=RunState.QUEUED), limit=LIMIT),
    "runs by model": lambda store: store.runs(RunFilter(model="resnet-50"), limit=LIMIT),
    "runs by their ids": lambda store: store.runs_named([one.id for one in store.runs(limit=LIMIT).items]),
    "runs by framework": lambda store: store.runs(RunFilter(framework="pytorch"), limit=LIMIT),
    "runs by label": lambda store: store.runs(RunFilter(label=("kind", "stored")), limit=LIMIT),
    "the second page of runs by label": lambda store: second_page(
        lambda **page: store.runs(RunFilter(label=("kind", "stored")), **page)
    ),
    "runs of an experiment": lambda store: store.runs(RunFilter(experiment_id=newest(store)), limit=LIMIT),
    "cells": lambda store: store.cells(CellFilter(), limit=LIMIT),
    "cells by model": lambda store: store.cells(CellFilter(model="resnet-50"), limit=LIMIT),
    "cells by framework": lambda store: store.cells(CellFilter(framework="tensorflow"), limit=LIMIT),
    "cells of an experiment": lambda store: store.cells(CellFilter(experiment_id=newest(store)), limit=LIMIT),
    "the second page of cells": lambda store: second_page(lambda **page: store.cells(CellFilter(), **page)),
    "one experiment": lambda store: store.experiment(newest(store)),
    "the queue": lambda store: store.queue_heads(2),
    "the queue in short": lambda store: store.queue(4),
    "earlier runs": lambda store: store.earlier_runs([run.plan.cell_key for run in store.runs(limit=9).items], 2),
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_costs_what_it_answers_and_not_what_is_stored(few_and_many: tuple[Counted, Counted], name: str) -> None:
    few, many = (counted.cost(PAGES[name]) for counted in few_and_many)
    assert many[0] <= 1.5 * few[0] + 100
    assert many[1] == few[1]


def test_a_page_of_a_hundred_cells_takes_as_many_statements_as_one_of_two(
    few_and_many: tuple[Counted, Counted],
) -> None:
    _, many = few_and_many
    assert many.cost(lambda store: store.cells(limit=100))[1] == many.cost(lambda store: store.cells(limit=2))[1] <= 9


@pytest.mark.parametrize("limit", [1, 3, 7])
def test_pages_of_cells_come_together_in_the_order_of_the_sweep(
    few_and_many: tuple[Counted, Counted], limit: int
) -> None:
    store = few_and_many[0].store
    whole = store.cells(limit=1000)
    assert whole.next_cursor is None
    found, cursor = [], None
    while True:
        page = store.cells(limit=limit, cursor=cursor)
        found += [cell.runs[0].id for cell in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert found == [cell.runs[0].id for cell in whole.items]
    assert [cell.runs[0].plan.seed for cell in whole.items][:4] == [1, 2, 3, 4]
    in_the_store = {run.plan.cell_key for run in store.runs_of(newest(store))}
    assert len([cell for cell in whole.items if cell.experiment.id == newest(store)]) == len(in_the_store)
