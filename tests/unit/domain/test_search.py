"""The search for the largest batch: what follows from the answers of its tries, and how it falls out of ``expand``."""

from dataclasses import replace

import pytest

from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.asked.spec import ExperimentSpec
from orchestrator.domain.expansion.bisection import MOST, Answer, Search, most_left, step
from orchestrator.domain.expansion.search import STEPS, is_answer
from orchestrator.domain.expansion.sweep import check, expand, fruitless, spec_of
from orchestrator.domain.runs.run import Run, RunState
from orchestrator.domain.value.failure import Failure, FailureKind
from orchestrator.domain.words.errors import InvalidRequest
from tests.unit import builders as make

SHORT = Failure(FailureKind.OUT_OF_MEMORY, "no more")
CRASHED = Failure(FailureKind.CRASHED, "it crashed")
GIB = 2**30


@pytest.mark.parametrize("largest", [1, 2, 3, 5, 8, 37, 100, 1023, 1024, 1025])
def test_doubling_then_bisection_finds_the_largest_in_few_tries(largest: int) -> None:
    answers: dict[int, Answer] = {}
    while (stand := step(answers)).next is not None:
        assert stand.next not in answers, "no batch is tried twice"
        answers[stand.next] = Answer.FITS if stand.next <= largest else Answer.TOO_LARGE
    assert stand.found is not None
    assert stand.found <= largest <= stand.found + stand.found // 64
    assert len(answers) <= largest.bit_length() + 7


@pytest.mark.parametrize("largest", [0, 1, 2, 3, 100, 1023, 1024, MOST // 2, MOST - 1, MOST])
def test_no_search_takes_more_tries_than_it_was_said_to_take_at_most(largest: int) -> None:
    answers: dict[int, Answer] = {}
    said = []
    while (stand := step(answers)).next is not None:
        said.append(most_left(answers))
        answers[stand.next] = Answer.FITS if stand.next <= largest else Answer.TOO_LARGE
    left = range(len(said), 0, -1)
    assert all(most >= tries for most, tries in zip(said, left, strict=True))
    assert said == sorted(said, reverse=True)
    assert most_left(answers) == 0
    assert said[0] == 26
    assert largest != MOST - 1 or len(said) == 26, "and the longest one takes as many"


def test_a_search_waits_for_its_try_and_ends_where_nothing_can_be_known() -> None:
    assert step({}) == Search(next=1)
    assert step({1: Answer.FITS, 2: Answer.PENDING}) == Search()
    assert "not even a batch of 1" in str(step({1: Answer.TOO_LARGE}).reason)
    why = str(step({1: Answer.FITS, 2: Answer.FITS, 4: Answer.NONE}).reason)
    assert why == "the try of a batch of 4 failed, and not for want of memory; one of 2 fits"
    assert step({1: Answer.FITS, MOST: Answer.FITS}) == Search(found=MOST)


def carried_out(plan: Plan, largest: int, holds: int) -> Run:
    if plan.per_device_batch_size > (largest if plan.search else holds):
        return make.run(f"run_{plan.key}", RunState.FAILED, plan=plan, failure=SHORT)
    return make.run(f"run_{plan.key}", RunState.COMPLETED, plan=plan, analysis=make.analysis())


def whole(spec: ExperimentSpec, largest: int, holds: int = MOST) -> list[Run]:
    """All runs of the experiment, where so large a batch fits in a try, and one that ``holds`` when it is measured."""
    runs: list[Run] = []
    while plans := expand(spec, make.facts(), runs):
        runs += [carried_out(plan, largest, holds) for plan in plans]
    return runs


def test_the_cell_of_the_largest_batch_is_repeated_as_if_it_had_been_listed() -> None:
    spec = make.spec(per_device_batch_size="max", memory_limit_bytes=GIB, max_steps=500)
    check(spec, make.facts())
    runs = whole(spec, largest=6)
    tries = [run.plan for run in runs if run.plan.search]
    assert [plan.per_device_batch_size for plan in tries] == [1, 2, 4, 8, 6, 7]
    assert {(plan.max_steps, plan.repetition, plan.memory_limit_bytes) for plan in tries} == {(STEPS, 1, GIB)}
    repeated = [run.plan for run in runs if not run.plan.search]
    listed = make.spec(per_device_batch_size=6, memory_limit_bytes=GIB, max_steps=500)
    assert repeated == expand(listed, make.facts(), [])
    assert sum(is_answer(run, spec) for run in runs) == 2


def test_each_cell_has_a_search_of_its_own_beside_cells_with_a_batch() -> None:
    spec = make.spec(per_device_batch_size=[4, "max"], topology=["1x1", "1x2"], memory_limit_bytes=GIB, repeats=1)
    first = expand(spec, make.facts(), [])
    assert sorted((str(plan.topology), plan.per_device_batch_size, plan.search) for plan in first) == [
        ("1x1", 1, True),
        ("1x1", 4, False),
        ("1x2", 1, True),
        ("1x2", 4, False),
    ]
    found = {(str(run.plan.topology), run.plan.per_device_batch_size) for run in whole(spec, 9) if not run.plan.search}
    assert found == {("1x1", 4), ("1x2", 4), ("1x1", 9), ("1x2", 9)}


def measured(runs: list[Run]) -> list[tuple[int, int, RunState]]:
    """(batch, repetition, how it ended) of the runs that are no tries."""
    found = [(run.plan.per_device_batch_size, run.plan.repetition, run.state) for run in runs if not run.plan.search]
    return sorted(found, reverse=True)


def test_a_batch_that_does_not_hold_when_it_is_measured_gives_way_to_the_next_smaller_one() -> None:
    spec = make.spec(per_device_batch_size="max", memory_limit_bytes=GIB, repeats=2)
    runs = whole(spec, largest=6, holds=4)
    assert measured(runs) == [
        (6, 1, RunState.FAILED),
        (5, 1, RunState.FAILED),
        (4, 2, RunState.COMPLETED),
        (4, 1, RunState.COMPLETED),
    ]
    assert all(is_answer(run, spec) for run in runs if run.state is RunState.FAILED)
    assert fruitless(spec, make.facts(), runs) == []


def test_large_batches_give_way_by_a_part_of_themselves() -> None:
    spec = make.spec(per_device_batch_size="max", memory_limit_bytes=GIB, repeats=1)
    assert [batch for batch, _, _ in measured(whole(spec, largest=1000, holds=960))] == [1000, 985, 970, 955]


def test_where_no_whole_run_fits_there_is_no_cell_and_a_reason() -> None:
    spec = make.spec(per_device_batch_size="max", memory_limit_bytes=GIB)
    runs = whole(spec, largest=2, holds=0)
    assert measured(runs) == [(2, 1, RunState.FAILED), (1, 1, RunState.FAILED)]
    (missing,) = fruitless(spec, make.facts(), runs)
    assert missing.reason == f"a batch of 1 fits into the memory for {STEPS} steps, and not for a whole run"


def test_a_batch_that_somebody_listed_is_measured_whatever_a_search_finds_and_fails_by_itself() -> None:
    spec = make.spec(per_device_batch_size=["max", 6], memory_limit_bytes=GIB, repeats=2)
    runs = whole(spec, largest=6, holds=5)
    assert [(batch, repetition) for batch, repetition, _ in measured(runs)] == [(6, 2), (6, 1), (5, 2), (5, 1)]
    listed = [run for run in runs if run.plan.per_device_batch_size == 6 and not run.plan.search]
    assert not any(is_answer(run, spec) for run in listed)


def test_a_later_repetition_that_runs_out_makes_the_search_step_down_as_well() -> None:
    spec = make.spec(per_device_batch_size="max", memory_limit_bytes=GIB, repeats=3)
    runs = whole(spec, largest=6)
    late = next(run for run in runs if not run.plan.search and run.plan.repetition == 3)
    runs[runs.index(late)] = replace(late, state=RunState.FAILED, failure=SHORT, analysis=None)
    assert [(plan.per_device_batch_size, plan.repetition) for plan in expand(spec, make.facts(), runs)] == [(5, 1)]


def test_where_not_even_one_sample_fits_there_is_no_cell_and_a_reason() -> None:
    spec = make.spec(per_device_batch_size="max", memory_limit_bytes=GIB)
    runs = whole(spec, largest=0)
    assert len(runs) == 1
    (missing,) = fruitless(spec, make.facts(), runs)
    assert missing.cell["per_device_batch_size"] == "max"
    assert "not even a batch of 1" in missing.reason
    crashed = [make.run("run_1", RunState.FAILED, plan=runs[0].plan, failure=CRASHED)]
    assert expand(spec, make.facts(), crashed) == []
    assert not is_answer(crashed[0], spec)


def test_on_cpu_devices_a_search_wants_a_limit_and_on_gpus_there_is_none() -> None:
    for spec, device, text in (
        (make.spec(per_device_batch_size="max"), "cpu", "the bytes that a device's processes may use"),
        (make.spec(memory_limit_bytes=GIB), "cuda", "a GPU has its own limit"),
    ):
        with pytest.raises(InvalidRequest, match=text) as caught:
            check(spec, make.facts(device))
        assert [problem.pointer for problem in caught.value.problems] == ["/memory_limit_bytes"]
    check(make.spec(per_device_batch_size="max"), make.facts("cuda"))


def test_plans_without_a_limit_keep_the_identity_they_had_before_there_were_limits() -> None:
    assert "memory_limit_bytes" not in make.plan().to_json()
    assert "search" not in make.plan().to_json()
    limited = make.plan(memory_limit_bytes=GIB, search=True)
    assert Plan.from_json(limited.to_json()) == limited
    assert limited.cell_key != make.plan().cell_key
    assert spec_of(make.plan(memory_limit_bytes=GIB), "again").memory_limit_bytes == GIB
