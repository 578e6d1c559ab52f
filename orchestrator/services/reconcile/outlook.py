"""What a queued run waits for: by the scheduler's own order, and by what the scheduler keeps for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from orchestrator.domain.asked.placement import Kept, Node
from orchestrator.domain.runs.durations import at_most_s
from orchestrator.domain.runs.outlook import Outlook
from orchestrator.domain.runs.run import Run, RunState
from orchestrator.domain.runs.stored import QueuedRun
from orchestrator.services.context import Context
from orchestrator.services.facts.nodes import ordered_nodes
from orchestrator.services.reconcile.decisions import all_kept
from orchestrator.services.reconcile.expectations import durations_of
from orchestrator.services.reconcile.situation import Situation, all_uses
from orchestrator.services.reconcile.turns import Turns

EARLIER_RUNS, TIME_LIMIT = "earlier_runs", "timeout_s"
MOST_COUNTED = 20_000  # queued runs that are put in order for a person: a judgement, some 50 ms


@dataclass(frozen=True)
class _Queue:
    """``order``: the queue by turns; ``holding``: the runs that hold devices, by id."""

    order: Sequence[QueuedRun]
    kept: Mapping[str, Kept]
    holding: Mapping[str, Run]


def outlook(context: Context, run: Run) -> Outlook | None:
    """What ``run`` waits for; None where it is not queued, is to be cancelled, or its experiment is paused."""
    if run.state is not RunState.QUEUED or run.cancel_requested or run.paused:
        return None
    nodes = ordered_nodes(context)
    known_by = (context.store.newest_change(), tuple((node.name, node.state, len(node.devices)) for node in nodes))
    queue = context.kept.of("queue", known_by, lambda: _queue(context, nodes))
    if not queue.order:  # it was queued, and has begun since
        return None
    before = next((place for place, one in enumerate(queue.order) if one.id == run.id), None)
    first = queue.order[0]
    found = Outlook(len(queue.order) if before is None else before, before is None, first.id, first.owner)
    if run.id not in queue.kept:
        return found
    kept = queue.kept[run.id]
    awaited = [queue.holding[one] for one in kept.awaited if one in queue.holding]
    starts_at, evidence = _when_over(context, awaited)
    return replace(found, kept=kept.shares, awaited=kept.awaited, starts_at=starts_at, evidence=evidence)


def _queue(context: Context, nodes: Sequence[Node]) -> _Queue:
    store, now = context.store, context.clock.now()
    holding = store.open_runs(0).runs
    uses = all_uses(store.uses(now), holding, now)
    turns = Turns(store.queue(MOST_COUNTED), uses)
    order = []
    for one in turns:
        order.append(one)
        turns.begun(one)
    kept = all_kept(Situation([*holding, *store.queue_heads(1)], nodes, uses=uses))
    return _Queue(order, kept, {run.id: run for run in holding})


def _when_over(context: Context, runs: Sequence[Run]) -> tuple[float, str]:
    """(by when all of ``runs`` are over, by what evidence). Those that have lasted longer than was to be expected are
    given their time limit."""
    now, evidence, ends = context.clock.now(), EARLIER_RUNS, [context.clock.now()]
    earlier = {cell: durations_of(context, cell) for cell in {run.plan.cell_key for run in runs}}
    for run in runs:
        began = run.attempt.created_at if run.attempt else now
        lasts_s = at_most_s(earlier[run.plan.cell_key])
        if lasts_s is None or began + lasts_s < now:
            lasts_s, evidence = run.plan.timeout_s, TIME_LIMIT
        ends.append(began + lasts_s)
    return max(ends), evidence
