"""The largest batch that fits on a device: doubling, then bisection. Pure: from the answers of tries to the next try.

A try is a run of a few steps in fresh processes, so that nothing of the one before is left in memory. That it runs out
of memory is an answer. What the tries find is a batch at which their steps fit. A whole run, or one with profiles, may
take a little more, and so may another process of the same batch. Where one runs out of memory after all, that is an
answer too, and a smaller batch is measured.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.asked.spec import LARGEST_THAT_FITS, ExperimentSpec
from orchestrator.domain.expansion.bisection import PART, Answer, Search
from orchestrator.domain.runs.run import TERMINAL, Run, RunState
from orchestrator.domain.value.failure import FailureKind

# Judgement. The second step is the first one in which weights, gradients and the optimiser's state are all there.
STEPS = 4


def measured_down(stand: Search, runs_at: Callable[[int], Iterable[Run]]) -> Search:
    """Where a search stands after what it found was measured: ``runs_at`` gives the whole runs at a batch."""
    batch, last = stand.found, None
    while batch and any(map(out_of_memory, runs_at(batch))):
        last = batch
        batch -= max(1, batch // PART)  # single steps down from 1000 would be many runs
    if last is None:
        return stand
    reason = None if batch else f"a batch of {last} fits into the memory for {STEPS} steps, and not for a whole run"
    return Search(found=batch or None, reason=reason)


def try_of(plan: Plan, batch: int) -> Plan:
    """The try of ``batch`` samples a device, of a cell that is otherwise ``plan``: a few steps and no profile."""
    return replace(
        at_batch(plan, batch),
        search=True,
        profile=(),
        max_steps=STEPS,
        min_measure_s=None,
        max_measure_s=None,
        warm_up_s=0.0,
    )


def at_batch(plan: Plan, batch: int) -> Plan:
    """The cell of ``plan`` with another batch of so many samples a device."""
    return replace(plan, per_device_batch_size=batch, global_batch_size=batch * plan.world_size)


def searched(plan: Plan) -> str:
    """What all tries of one search have in common, and all cells that it may find; ``plan`` is any of them."""
    return try_of(plan, 1).cell_key


def answer_of(run: Run) -> Answer:
    """What a try says of its batch."""
    if run.state not in TERMINAL:
        return Answer.PENDING
    if run.state is RunState.COMPLETED:
        return Answer.FITS
    return Answer.TOO_LARGE if ran_out(run) else Answer.NONE


def out_of_memory(run: Run) -> bool:
    return run.failure is not None and run.failure.kind is FailureKind.OUT_OF_MEMORY


def ran_out(run: Run) -> bool:
    """Whether it is a try that ran out of memory."""
    return run.plan.search and out_of_memory(run)


def was_found(plan: Plan, spec: ExperimentSpec) -> bool:
    """Whether a search has chosen its batch, and no one has listed it."""
    batches = spec.per_device_batch_size or ()
    return LARGEST_THAT_FITS in batches and plan.per_device_batch_size not in batches


def is_answer(run: Run, spec: ExperimentSpec) -> bool:
    """Whether it ran out of memory where that is an expected answer, and no failure of its experiment: as a try, or
    measured at a batch that a search has chosen."""
    return out_of_memory(run) and (run.plan.search or was_found(run.plan, spec))
