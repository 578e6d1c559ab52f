"""Logs of attempts: fetched while the run lives, stored by (attempt, node, number), acknowledged once stored."""

import logging

from orchestrator.domain.words.errors import NodeFailed
from orchestrator.services.context import Context

log = logging.getLogger(__name__)

BATCH = 1000  # entries a call; a judgement: some 200 KiB of JSON


def fetch_log(context: Context, attempt_id: str, node: str) -> bool:
    """Bring what the log of the attempt on ``node`` has gained; whether it is now stored to its end.

    The acknowledgement of the last entry lets the agent delete the log, so it is sent after the store has committed.

    Raises:
        NodeUnreachable, NotFound: from the cluster.
        StoreUnavailable: nothing was acknowledged; the entries are fetched again later.
    """
    stored = context.store.last_seqs(attempt_id).get(node, 0)
    while True:
        part = context.cluster.fetch(node, attempt_id, stored, BATCH)
        if part.entries:
            stored = context.store.append_entries(attempt_id, node, part.entries)
            _acknowledge(context, attempt_id, node, stored)
        if len(part.entries) < BATCH:
            return part.ended and stored >= part.last_seq


def _acknowledge(context: Context, attempt_id: str, node: str, seq: int) -> None:
    """What an agent cannot delete is no reason to go without what it says: the log stays on its disk."""
    try:
        context.cluster.acknowledge(node, attempt_id, seq)
    except NodeFailed as error:
        log.info("the log of %s stays there: %s", attempt_id, error)
