"""Attempts that the database has over and an agent has not: ended, their logs kept, the agent's files removed.

Such a one was taken for dead while it lived: its node was cut off, its clock stood still, or two servers disagreed. Its
run has gone on, or is over, and nothing that it still says changes that: it is stored as a log that nobody analyses.
"""

import logging

from orchestrator.domain.runs.log import Entry
from orchestrator.domain.value.failure import FailureKind
from orchestrator.domain.words.errors import NotFound
from orchestrator.services.context import Context
from orchestrator.services.reconcile.fetch_log import fetch_log
from orchestrator.services.reconcile.situation import Stray

log = logging.getLogger(__name__)


def take_over(context: Context, stray: Stray) -> None:
    """Have the agent end what lives of the attempt; once it has ended, store the rest of its log and let it go.

    Raises:
        NodeUnreachable, NodeFailed: from the cluster. What was done stays done; it is tried again.
    """
    attempt, node = stray.attempt, stray.node
    if stray.lives:
        log.warning("attempt %s is over, and still runs on %s: it is ended", attempt.id, node)
        context.store.note_alive(attempt.id, context.clock.now())
        context.cluster.stop(node, attempt.id, FailureKind.NODE_LOST)
        return
    try:
        if not fetch_log(context, attempt.id, node):
            return  # there is more to come
        opened, closed = context.store.entries(attempt.id, node=node, kinds=["log_opened", "log_closed"])
        context.store.note_alive(attempt.id, _alive_at(stray, opened, closed))
        context.cluster.acknowledge(node, attempt.id, int(closed["seq"]))
    except NotFound:
        return  # it has been removed meanwhile
    log.info("attempt %s is over: the log on %s was stored", attempt.id, node)


def _alive_at(stray: Stray, opened: Entry, closed: Entry) -> float:
    """When its processes last lived. The node's clock may have been put back meanwhile, and this service's ahead: how
    long they took, and for how long they have been dead, is of one that is never. The latest counts."""
    attempt = stray.attempt
    begun_at = attempt.created_at if attempt.started_at is None else attempt.started_at
    known = [float(closed["wall"]), begun_at + float(closed["t"]) - float(opened["t"])]
    return max(known if stray.ended_at is None else [*known, stray.ended_at])
