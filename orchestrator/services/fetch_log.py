"""Logs of attempts: fetched while the run lives, stored by (attempt, node, number), acknowledged once stored."""

from orchestrator.services.context import Context

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
            context.cluster.acknowledge(node, attempt_id, stored)
        if len(part.entries) < BATCH:
            return part.ended and stored >= part.last_seq
