"""What a search for the largest batch says of its cells: which have no row, and what is noted of the one that has."""

from collections.abc import Iterator, Sequence

from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.expansion.search import is_answer, searched, was_found
from orchestrator.domain.runs.filters import RunFilter
from orchestrator.domain.runs.run import Experiment, Run, RunState
from orchestrator.services.context import Context

PART = 200  # runs had at once


def was_given_up(experiment: Experiment, runs: Sequence[Run]) -> bool:
    """Whether ``runs`` are of a cell whose batch fitted in its try and not when it was measured."""
    return any(is_answer(run, experiment.spec) for run in runs)


class Notes:
    """Notes on cells of any experiments; the runs that failed are had once of each experiment that has searches."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._short: dict[str, list[Run]] = {}

    def on(self, experiment: Experiment, plan: Plan) -> tuple[str, ...]:
        """What there is to say of the batch of a cell."""
        if not was_found(plan, experiment.spec):
            return ()
        if experiment.id not in self._short:
            self._short[experiment.id] = list(self._measured_short(experiment))
        larger: dict[int, str] = {}
        for run in self._short[experiment.id]:
            if searched(run.plan) == searched(plan) and run.plan.per_device_batch_size > plan.per_device_batch_size:
                larger[run.plan.per_device_batch_size] = run.id
        if not larger:
            return ()
        told = ", ".join(f"{batch} ({run_id})" for batch, run_id in sorted(larger.items(), reverse=True))
        return (f"max: the tries found a batch of {max(larger)}; measured whole there was no memory for {told}",)

    def _measured_short(self, experiment: Experiment) -> Iterator[Run]:
        cursor: str | None = None
        wanted = RunFilter(experiment_id=experiment.id, state=RunState.FAILED)
        while True:
            page = self._context.store.runs(wanted, limit=PART, cursor=cursor)
            yield from (run for run in page.items if not run.plan.search and is_answer(run, experiment.spec))
            cursor = page.next_cursor
            if cursor is None:
                return
