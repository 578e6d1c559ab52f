"""A loss that was confirmed on the devices where nights looked slower is tried on others, equal to those: whether it is
the new subject's everywhere, or shows on these devices alone. Nothing that was confirmed is taken back by it."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from orchestrator.analysis.gate.confirmation import LEAST_BLOCKS, Design
from orchestrator.domain.around.access import is_shut_out
from orchestrator.domain.around.alerts import Alert, Elsewhere, Trial
from orchestrator.domain.asked.placement import Node, kind_of, offer
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.words.errors import DamagedRow, NotFound
from orchestrator.services.context import Context
from orchestrator.services.gate.trials import Budget, Outcome, experiment_of, occupied_s
from orchestrator.services.history.observed import Place
from orchestrator.services.reconcile import confirming
from orchestrator.services.schedule.board import nights_of


def begin(context: Context, budget: Budget, alert: Alert) -> tuple[Elsewhere, Trial] | None:
    """The experiment that tries what ``alert`` was confirmed of on equal devices; None where there are none, or the
    budget does not reach."""
    try:
        schedule = context.store.schedule(alert.schedule_id)
        experiment = context.store.experiment(str(alert.experiment_id))
        wanted = confirming.wanted_of(experiment)
    except (NotFound, DamagedRow):
        return None
    if schedule.paused or is_shut_out(schedule.owner, context.store.all_tokens().items):
        return None
    old, new = Plan.from_json(wanted.old), Plan.from_json(wanted.new)
    there = equal_devices(new, context.cluster.nodes())
    if there is None:
        return None
    runs = [one for one in context.store.verdicts_of(experiment.id) if not one.plan.profile]
    blocks = budget.blocks(schedule, nights_of(context, schedule), fmean(map(occupied_s, runs)))
    if blocks < LEAST_BLOCKS:
        return None
    now = context.clock.now()
    sides = tuple(replace(one, node_names=there.nodes, device_ids=there.device_ids) for one in (old, new))
    design = Design(wanted.size, min(wanted.most_blocks, blocks))
    trial = experiment_of(context, schedule, alert.id, (sides[0], sides[1]), design, now, profiled=False)
    text = f"being tried on {there.name} in {trial[0].id} as well"
    return Elsewhere(there.name, trial[0].id, now, text), trial


def equal_devices(plan: Plan, nodes: Sequence[Node]) -> Place | None:
    """Others than those of ``plan``, which stays on one node, equal to them, of a node that takes runs: of another node
    where there is one."""
    own = [one for node in nodes if node.name in plan.node_names for one in node.devices]
    wanted = {kind_of(one) for one in own if one.id in plan.device_ids}
    if plan.needs.nodes > 1 or len(wanted) != 1:
        return None
    offered = offer(replace(plan.needs, node_names=(), device_ids=()), nodes).devices
    for name in sorted(offered, key=lambda node: (node in plan.node_names, node)):
        alike = [one.id for one in offered[name] if kind_of(one) in wanted]
        left = [one for one in alike if name not in plan.node_names or one not in plan.device_ids]
        if len(left) >= plan.needs.devices_per_node:
            return Place((name,), tuple(left[: plan.needs.devices_per_node]))
    return None


def concluded(begun: Elsewhere, found: Outcome) -> Elsewhere:
    """``begun``, with what it told."""
    said = "on equal devices too" if found.effect else f"not so on {begun.place}, which is equal"
    if found.answer == "untold":
        said = f"not known of {begun.place}, which is equal"
    return replace(begun, text=f"{said}: {found.text}", effect=found.effect)
