"""What a row of results says of the runs of a cell: pure, without a store."""

import json
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from orchestrator.analysis.cell.row import row_of
from orchestrator.db.run import cell_rows
from orchestrator.domain.runs.basis import of_plan
from orchestrator.domain.runs.row import Numbers, Row
from orchestrator.domain.runs.run import Run, RunState
from orchestrator.domain.value.failure import Failure, FailureKind
from orchestrator.domain.value.measurement import Grade, Measurement, Reason
from tests.unit import builders as make
from workers.trainer import protocol

ASKED = ("repeats", "precision_target", "device_time_budget_s")
CRASHED = make.run("run_c", RunState.FAILED, failure=Failure(FailureKind.CRASHED, "exit code 1"))
QUEUED = make.run("run_q")
GRADES: dict[str, tuple[Reason, ...]] = {"s": (), "d": (make.LOADED,), "b": (make.REPLICAS_DIFFER,)}


def a_run(number: int, grade: str = "s", rate: float | None = None, unit: str = "images/s") -> Run:
    """Repetition ``number``, s(ound), d(isturbed) or b(roken), with the rate 100 + its number."""
    value = 100.0 + number if rate is None else rate
    found = replace(make.analysis(*GRADES[grade]), measurements=(Measurement("throughput", value, unit, "m"),))
    attempts = (make.attempt(f"run_{number}"),)
    plan = make.plan(repetition=number)
    return make.run(f"run_{number}", RunState.COMPLETED, plan=plan, analysis=found, attempts=attempts)


def row(grades: str, *others: Run, repeats: int = 4) -> Row:
    runs = [a_run(number, grade) for number, grade in enumerate(grades, start=1)]
    return row_of(make.spec(repeats=repeats, max_repeats=12), [*runs, *others])


def numbers(runs: Sequence[str]) -> list[int]:
    return [int(name.removeprefix("run_")) for name in runs]


@pytest.mark.parametrize(
    ("grades", "grade", "own", "planned"),
    [
        ("ssss", Grade.SOUND, [1, 2, 3, 4], [1, 2, 3, 4]),
        ("sdsss", Grade.SOUND, [1, 3, 4, 5], [1, 2, 3, 4]),  # the fifth replaces the second
        ("sdds", Grade.DISTURBED, [1, 2, 3, 4], [1, 2, 3, 4]),
        ("sbdds", Grade.DISTURBED, [1, 3, 4], [1, 3, 4]),
        ("bb", Grade.BROKEN, [], []),
    ],
)
def test_rates_are_those_of_the_runs_that_count_and_those_of_the_planned_ones(
    grades: str, grade: Grade, own: list[int], planned: list[int]
) -> None:
    found = row(grades)
    assert found.basis.grade is grade
    assert (numbers(list(found.rates)), numbers(list(found.planned_rates))) == (own, planned)
    assert [run.plan.repetition for run, _ in found.rates_of(of_plan(found.runs, 4))] == planned
    assert found.unit == ("images/s" if own else None)
    assert found.n_used == len(own)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (row("bb"), "the weights of the ranks differ"),
        (row_of(make.spec(), [CRASHED]), "exit code 1"),
        (row_of(make.spec(), [QUEUED]), "no run has ended yet"),
        (row("s"), None),
    ],
)
def test_a_cell_without_a_number_says_why(found: Row, reason: str | None) -> None:
    assert found.reasons.get("throughput") == reason
    assert ("throughput" in found.measurements) is (reason is None)


def test_runs_that_measured_other_units_have_no_number_in_common_and_a_note_says_why() -> None:
    runs = [a_run(1), a_run(2, unit="tokens/s"), a_run(3)]
    found = row_of(make.spec(repeats=3, precision_target=0.5), runs)
    why = "its runs measured other units: images/s (2), tokens/s (1)"
    assert found.reasons["throughput"] == why
    assert found.validity.notes == (f"no rate over all runs, for {why}; submit it anew",)
    assert (found.unit, found.rates, found.planned_rates, found.shares) == (None, {}, {}, ())
    assert found.precision is not None
    assert found.precision.half_width_ratio is None
    assert "throughput" not in found.measurements


def test_a_run_that_is_open_is_counted_as_no_more_than_that() -> None:
    found = row("ssss", replace(QUEUED, plan=make.plan(repetition=5)))
    assert (len(found.runs), found.n_ended, found.n_used) == (5, 4, 4)
    assert found.measurements == row("ssss").measurements


def test_a_wanted_precision_is_judged_by_the_first_stage() -> None:
    spec = make.spec(precision_target=0.5)
    runs = [a_run(number) for number in range(1, 8)]
    found = row_of(spec, runs)
    assert (found.planned, found.first_stage) == (None, 6)
    assert found.precision is not None
    assert found.precision.met
    one = row_of(spec, runs[:1]).precision
    assert one is not None
    assert (one.half_width_ratio, one.met) == (None, False)


def test_a_row_asks_a_spec_for_nothing_but_what_a_stored_one_is_forgotten_by() -> None:
    spec = make.spec(repeats=4)
    told = SimpleNamespace(name=spec.name, **dict(zip(ASKED, cell_rows.asked_of(spec), strict=True)))
    runs = [a_run(number) for number in range(1, 5)]
    assert row_of(cast(Any, told), runs) == row_of(spec, runs)


def test_what_is_stored_of_a_row_says_the_same_when_it_is_read() -> None:
    runs = [a_run(number, grade) for number, grade in enumerate("sdsss", start=1)]
    found = row_of(make.spec(repeats=4, precision_target=0.5), [*runs, CRASHED])
    as_text = json.loads(protocol.to_json(found.to_json()))
    assert Row.of(Numbers.from_json(as_text), "test", found.runs) == found
