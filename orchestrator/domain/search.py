"""The largest batch that fits on a device: doubling, then bisection. Pure: from the answers of tries to the next try.

A try is a run of a few steps in fresh processes, so that nothing of the one before is left in memory. That it runs out
of memory is an answer. What is found is a batch at which the steps of a try fit; a longer run, or one with profiles,
may take a little more.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from orchestrator.domain.failure import FailureKind
from orchestrator.domain.plan import Plan
from orchestrator.domain.run import TERMINAL, Run, RunState

# Judgements. The second step is the first one in which weights, gradients and the optimiser's state are all there.
STEPS = 4
MOST = 2**19  # samples; a batch that large is no batch any more


class Answer(StrEnum):
    FITS = "fits"
    TOO_LARGE = "too_large"
    PENDING = "pending"
    NONE = "none"  # it failed otherwise, or was cancelled: nobody knows


@dataclass(frozen=True)
class Search:
    """``found`` is the largest batch; else ``next`` is the one to be tried now, or the search waits for a try, or
    ``reason`` says why it came to nothing."""

    found: int | None = None
    next: int | None = None
    reason: str | None = None


def step(answers: Mapping[int, Answer]) -> Search:
    """Where a search stands: ``answers`` by batch."""
    unknown = [batch for batch, answer in answers.items() if answer is Answer.NONE]
    if unknown:
        return Search(reason=f"the try of a batch of {unknown[0]} failed, and not for want of memory")
    if Answer.PENDING in answers.values():
        return Search()
    too_large = min((batch for batch, answer in answers.items() if answer is Answer.TOO_LARGE), default=None)
    fits = max((b for b, answer in answers.items() if answer is Answer.FITS and b < (too_large or b + 1)), default=0)
    if too_large is None:
        return Search(next=2 * fits or 1) if fits < MOST else Search(found=fits)
    if too_large - fits > 1:
        return Search(next=(too_large + fits) // 2)
    return Search(found=fits) if fits else Search(reason="not even a batch of 1 fits into the memory")


def try_of(plan: Plan, batch: int) -> Plan:
    """The try of ``batch`` samples a device, of a cell that is otherwise ``plan``: a few steps and no profile."""
    return replace(
        plan,
        search=True,
        per_device_batch_size=batch,
        global_batch_size=batch * plan.world_size,
        profile=(),
        max_steps=STEPS,
        min_measure_s=None,
        max_measure_s=None,
    )


def answer_of(run: Run) -> Answer:
    """What a try says of its batch."""
    if run.state not in TERMINAL:
        return Answer.PENDING
    if run.state is RunState.COMPLETED:
        return Answer.FITS
    return Answer.TOO_LARGE if ran_out(run) else Answer.NONE


def ran_out(run: Run) -> bool:
    """Whether it is a try that ran out of memory: an expected answer, no failure of its experiment."""
    return run.plan.search and run.failure is not None and run.failure.kind is FailureKind.OUT_OF_MEMORY
