"""The search for the largest batch: what follows from the answers of its tries, and how it falls out of ``expand``."""

import pytest

from orchestrator.domain.errors import InvalidRequest
from orchestrator.domain.failure import Failure, FailureKind
from orchestrator.domain.plan import Plan
from orchestrator.domain.run import Run, RunState
from orchestrator.domain.search import MOST, STEPS, Answer, Search, ran_out, step
from orchestrator.domain.spec import ExperimentSpec
from orchestrator.domain.sweep import check, expand, fruitless, spec_of
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
    assert stand == Search(found=largest)
    assert len(answers) <= 2 * largest.bit_length() + 1


def test_a_search_waits_for_its_try_and_ends_where_nothing_can_be_known() -> None:
    assert step({}) == Search(next=1)
    assert step({1: Answer.FITS, 2: Answer.PENDING}) == Search()
    assert "not even a batch of 1" in str(step({1: Answer.TOO_LARGE}).reason)
    assert "a batch of 4 failed" in str(step({1: Answer.FITS, 2: Answer.FITS, 4: Answer.NONE}).reason)
    assert step({1: Answer.FITS, MOST: Answer.FITS}) == Search(found=MOST)


def carried_out(plan: Plan, largest: int) -> Run:
    if plan.search and plan.per_device_batch_size > largest:
        return make.run(f"run_{plan.key}", RunState.FAILED, plan=plan, failure=SHORT)
    return make.run(f"run_{plan.key}", RunState.COMPLETED, plan=plan, analysis=make.analysis())


def whole(spec: ExperimentSpec, largest: int) -> list[Run]:
    """All runs of the experiment, where so large a batch fits."""
    runs: list[Run] = []
    while plans := expand(spec, make.facts(), runs):
        runs += [carried_out(plan, largest) for plan in plans]
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
    assert sum(map(ran_out, runs)) == 2


def test_each_cell_has_a_search_of_its_own_beside_cells_with_a_batch() -> None:
    spec = make.spec(per_device_batch_size=[4, "max"], topology=["1x1", "1x2"], memory_limit_bytes=GIB, repeats=1)
    first = expand(spec, make.facts(), [])
    assert sorted((plan.topology, plan.per_device_batch_size, plan.search) for plan in first) == [
        ("1x1", 1, True),
        ("1x1", 4, False),
        ("1x2", 1, True),
        ("1x2", 4, False),
    ]
    found = {(run.plan.topology, run.plan.per_device_batch_size) for run in whole(spec, 9) if not run.plan.search}
    assert found == {("1x1", 4), ("1x2", 4), ("1x1", 9), ("1x2", 9)}


def test_where_not_even_one_sample_fits_there_is_no_cell_and_a_reason() -> None:
    spec = make.spec(per_device_batch_size="max", memory_limit_bytes=GIB)
    runs = whole(spec, largest=0)
    assert len(runs) == 1
    (missing,) = fruitless(spec, make.facts(), runs)
    assert missing.cell["per_device_batch_size"] == "max"
    assert "not even a batch of 1" in missing.reason
    crashed = [make.run("run_1", RunState.FAILED, plan=runs[0].plan, failure=CRASHED)]
    assert expand(spec, make.facts(), crashed) == []
    assert not ran_out(crashed[0])


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
