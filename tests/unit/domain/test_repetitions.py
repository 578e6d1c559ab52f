"""How often a cell is repeated, in which order, and which of its runs count."""

from collections.abc import Sequence
from dataclasses import replace

from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.asked.spec import ExperimentSpec
from orchestrator.domain.expansion.repetitions import device_time_s, first_stage_rates
from orchestrator.domain.expansion.sweep import expand
from orchestrator.domain.runs.basis import basis_of, shared
from orchestrator.domain.runs.run import Run, RunState
from orchestrator.domain.value.measurement import Grade, Measurement, Reason
from tests.unit import builders as make


def completed(plan: Plan, *reasons: Reason, rate: float = 100.0, took_s: float = 10.0) -> Run:
    analysis = replace(make.analysis(*reasons), measurements=(Measurement("throughput", rate, "images/s", "by hand"),))
    name = f"run_{plan.key}"
    attempts = (make.attempt(name, ended_at=took_s),)
    return make.run(name, RunState.COMPLETED, plan=plan, analysis=analysis, attempts=attempts)


def repetitions(*grades: str) -> list[Run]:
    """Runs 1, 2, ... of one cell: s(ound), d(isturbed) or b(roken)."""
    reasons = {"s": (), "d": (make.LOADED,), "b": (make.LOADED, make.REPLICAS_DIFFER)}
    return [completed(make.plan(repetition=n), *reasons[grade]) for n, grade in enumerate(grades, start=1)]


def used(runs: Sequence[Run], planned: int | None) -> tuple[list[int], Grade]:
    basis = basis_of(runs, planned)
    return [run.plan.repetition for run in basis.runs], basis.grade


def test_repetitions_come_in_blocks_of_one_of_every_cell_in_an_order_drawn_from_the_seed() -> None:
    spec = make.spec(per_device_batch_size=[1, 2, 4, 8, 16, 32], repeats=4)
    plans = expand(spec, make.facts(), [])
    assert [plan.repetition for plan in plans] == [block for block in (1, 2, 3, 4) for _ in range(6)]
    orders = [tuple(plan.per_device_batch_size for plan in plans[start : start + 6]) for start in range(0, 24, 6)]
    assert all(sorted(order) == [1, 2, 4, 8, 16, 32] for order in orders)
    assert len(set(orders)) == 4
    assert expand(spec, make.facts(), []) == plans
    other = expand(make.spec(per_device_batch_size=[1, 2, 4, 8, 16, 32], repeats=4, seed=2), make.facts(), [])
    assert [plan.per_device_batch_size for plan in other] != [plan.per_device_batch_size for plan in plans]


def test_the_sound_runs_count_where_there_are_four_the_replacements_among_them() -> None:
    assert used(repetitions(*"ssdsdsss"), planned=6) == ([1, 2, 4, 6, 7, 8], Grade.SOUND)


def test_fewer_than_four_sound_runs_leave_the_planned_repetitions_without_the_replacements() -> None:
    assert used(repetitions(*"sddsdddsdd"), planned=6) == ([1, 2, 3, 4, 5, 6], Grade.DISTURBED)
    assert used(repetitions(*"sddbdddsdd"), planned=6) == ([1, 2, 3, 5, 6], Grade.DISTURBED)


def test_all_planned_runs_sound_is_enough_however_few_they_are() -> None:
    assert used(repetitions("s"), planned=1) == ([1], Grade.SOUND)
    assert used(repetitions(*"sbs"), planned=3) == ([1, 3], Grade.SOUND)
    assert used(repetitions("d"), planned=1) == ([1], Grade.DISTURBED)


def test_a_cell_whose_runs_are_all_broken_rests_on_nothing() -> None:
    assert used(repetitions(*"bb"), planned=2) == ([], Grade.BROKEN)


def test_cells_that_are_compared_never_mix_grades() -> None:
    quiet, loaded = repetitions(*"ssssss"), repetitions(*"sdddddss")
    assert [basis.grade for basis in shared([quiet, quiet], 6)] == [Grade.SOUND, Grade.SOUND]
    bases = shared([quiet, loaded], 6)
    assert [basis.grade for basis in bases] == [Grade.DISTURBED, Grade.DISTURBED]
    assert [len(basis.runs) for basis in bases] == [6, 6]


def carried_on(spec: ExperimentSpec, *reasons: Reason) -> list[Run]:
    """Everything that the sweep asks for, each run ending with ``reasons``."""
    runs: list[Run] = []
    while plans := expand(spec, make.facts(), runs):
        runs += [completed(plan, *reasons) for plan in plans]
    return runs


def test_a_disturbed_run_is_replaced_while_the_cell_can_come_to_four_sound_ones() -> None:
    spec = make.spec(repeats=6, max_repeats=10)
    first = [completed(plan) for plan in expand(spec, make.facts(), [])]
    first[1] = completed(first[1].plan, make.LOADED)
    (seventh,) = expand(spec, make.facts(), first)
    assert seventh.repetition == 7
    assert expand(spec, make.facts(), [*first, completed(seventh)]) == []
    # Six disturbed: the four that max_repeats leaves may all be sound; after one more disturbed one they cannot.
    assert len(carried_on(spec, make.LOADED)) == 10
    assert len(carried_on(make.spec(repeats=6, max_repeats=9), make.LOADED)) == 6


def test_where_fewer_than_four_runs_are_planned_a_disturbed_one_counts_and_is_not_replaced() -> None:
    assert len(carried_on(make.spec(repeats=1), make.LOADED)) == 1
    assert len(carried_on(make.spec(repeats=3), make.LOADED)) == 3


def test_a_broken_run_is_not_replaced() -> None:
    assert len(carried_on(make.spec(repeats=6), make.LOADED, make.REPLICAS_DIFFER)) == 6


def test_a_precision_on_a_machine_that_is_never_quiet_rests_on_all_its_runs() -> None:
    spec = make.spec(precision_target=0.01, max_repeats=9)
    runs = carried_on(spec, make.LOADED)
    assert len(runs) == 6
    assert first_stage_rates(spec, runs) == ([100.0] * 6, 6)


def within_budget(budget_s: float, rates: dict[int, Sequence[float]]) -> list[Run]:
    """Two cells, batch 4 and 8, whose runs take 10 s each and have ``rates`` in turn."""
    spec = make.spec(per_device_batch_size=[4, 8], device_time_budget_s=budget_s, max_repeats=100)
    runs: list[Run] = []
    while plans := expand(spec, make.facts(), runs):
        for plan in plans:
            own = rates[plan.per_device_batch_size]
            runs.append(completed(plan, rate=own[(plan.repetition - 1) % len(own)]))
    return runs


def test_a_budget_of_device_time_goes_where_the_interval_is_widest() -> None:
    runs = within_budget(300.0, {4: [100.0, 100.1], 8: [90.0, 110.0]})
    counts = {batch: sum(run.plan.per_device_batch_size == batch for run in runs) for batch in (4, 8)}
    assert counts == {4: 6, 8: 24}
    assert sum(device_time_s(run) for run in runs) <= 300.0


def test_a_budget_that_is_too_small_ends_with_whole_blocks_as_far_as_it_goes() -> None:
    runs = within_budget(55.0, {4: [100.0], 8: [100.0]})
    assert [run.plan.repetition for run in runs] == [1, 1, 2, 2, 3]
    assert len(within_budget(1.0, {4: [100.0], 8: [100.0]})) == 2
