"""Repeats for a wanted precision: Stein's two stages, and what expand asks for."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from orchestrator.domain.asked.spec import ExperimentSpec
from orchestrator.domain.expansion.repetitions import first_stage_rates
from orchestrator.domain.expansion.sweep import check, expand
from orchestrator.domain.runs.run import Run, RunState
from orchestrator.domain.runs.wanted_precision import first_stage, scale_of, stein
from orchestrator.domain.value.measurement import Measurement
from orchestrator.domain.words.errors import InvalidRequest
from tests.unit import builders as make
from tests.unit.builders import is_over


def asks(**changes: object) -> ExperimentSpec:
    return make.spec(**({"precision_target": 0.01, "max_repeats": 30} | changes))


def carried_out(spec: ExperimentSpec, rates: Sequence[float | None]) -> list[Run]:
    """Runs 1, 2, ... of the only cell; None is a run that was disturbed."""
    plan = expand(spec, make.facts(), [])[0]
    return [_run(plan.repeated(number), rate) for number, rate in enumerate(rates, start=1)]


def _run(plan, rate):  # type: ignore[no-untyped-def]
    analysis = make.analysis() if rate is not None else make.analysis(make.LOADED)
    if rate is not None:
        analysis = replace(analysis, measurements=(Measurement("throughput", rate, "images/s", "m"),))
    return make.run(f"run_{plan.key}", RunState.COMPLETED, plan=plan, analysis=analysis)


def test_the_first_stage_has_six_runs_or_more() -> None:
    assert (first_stage(3), first_stage(8)) == (6, 8)
    assert len(expand(asks(), make.facts(), [])) == 6
    assert len(expand(asks(repeats=8), make.facts(), [])) == 8


def test_the_runs_wanted_make_the_interval_as_narrow_as_the_target() -> None:
    values = [98.0, 99.0, 100.0, 101.0, 102.0]  # deviation 1.58, t(4) 2.776
    found = stein(values, 5, 0.01)
    assert found.wanted == math.ceil((2.7764 * math.sqrt(2.5) / 1.0) ** 2) == 20
    assert not found.met
    assert scale_of([*values, *[50.0, 150.0] * 3], 5) == scale_of(values, 5), "later runs say nothing about noise"
    assert stein([*values, *[100.0] * 15], 5, 0.01).met


def test_quiet_runs_are_enough_after_the_first_stage() -> None:
    spec = asks()
    runs = carried_out(spec, [100.0, 100.1, 99.9, 100.05, 99.95, 100.0])
    assert expand(spec, make.facts(), runs) == []
    assert is_over(spec, make.facts(), runs)


def test_noisy_runs_are_followed_by_as_many_as_the_rule_wants_at_once() -> None:
    spec = asks()
    runs = carried_out(spec, [98.0, 99.0, 100.0, 101.0, 102.0, 100.0])  # deviation 1.41, t(5) 2.571: 14 runs
    assert [plan.repetition for plan in expand(spec, make.facts(), runs)] == list(range(7, 15))
    assert len(expand(asks(max_repeats=10), make.facts(), runs)) == 4
    done = carried_out(spec, [98.0, 99.0, 100.0, 101.0, 102.0, *[100.0] * 9])
    assert is_over(spec, make.facts(), done)


def test_nothing_is_decided_while_a_run_of_the_first_stage_is_not_over() -> None:
    spec = asks()
    runs = carried_out(spec, [90.0, 110.0, 100.0, 95.0, 105.0, 100.0])
    runs[2] = replace(runs[2], state=RunState.RUNNING, analysis=None)
    assert expand(spec, make.facts(), runs) == []
    assert not is_over(spec, make.facts(), runs)


def test_a_disturbed_run_of_the_first_stage_is_replaced_and_the_one_for_it_belongs_to_it() -> None:
    spec = asks()
    runs = carried_out(spec, [98.0, None, 100.0, 101.0, 102.0, 100.0])
    (seventh,) = expand(spec, make.facts(), runs)
    assert seventh.repetition == 7
    rates, first = first_stage_rates(spec, [*runs, _run(seventh, 99.0)])
    assert (rates, first) == ([98.0, 100.0, 101.0, 102.0, 100.0, 99.0], 6)


def test_runs_that_failed_are_no_part_of_what_is_known_and_are_not_repeated() -> None:
    spec = asks()
    runs = carried_out(spec, [99.9, 100.0, 100.1, 100.0, 100.0, 100.0])
    runs[0] = replace(runs[0], state=RunState.FAILED, analysis=None)
    assert expand(spec, make.facts(), runs) == []
    assert first_stage_rates(spec, runs)[1] == 5
    failed = [replace(run, state=RunState.FAILED, analysis=None) for run in runs]
    assert expand(spec, make.facts(), failed) == []


def test_each_cell_is_repeated_as_its_own_noise_wants() -> None:
    spec = asks(per_device_batch_size=[4, 8])
    plans = expand(spec, make.facts(), [])
    quiet, noisy = plans[0], plans[1]
    runs = [_run(quiet.repeated(n), 100.0 + 0.1 * (n % 2)) for n in range(1, 7)]
    runs += [_run(noisy.repeated(n), 100.0 + 2.0 * (n % 2)) for n in range(1, 7)]
    wanted = expand(spec, make.facts(), runs)
    assert {plan.cell_key for plan in wanted} == {noisy.cell_key}
    assert len(wanted) == 2  # deviation 1.10, t(5) 2.571: 8 runs


def test_a_precision_that_max_repeats_leaves_no_room_for_is_refused() -> None:
    with pytest.raises(InvalidRequest) as caught:
        check(asks(repeats=3, max_repeats=4), make.facts())
    (problem,) = caught.value.problems
    assert problem.pointer == "/max_repeats"
    assert "begins with 6 runs" in problem.message
    check(asks(), make.facts())
