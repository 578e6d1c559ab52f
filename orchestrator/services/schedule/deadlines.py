"""Cancels what is left of experiments whose deadline has passed."""

import logging

from orchestrator.domain.around.access import Actor, Scope
from orchestrator.domain.words.errors import NotFound
from orchestrator.services.context import Context
from orchestrator.services.lookout import POLL_S, Lookout
from orchestrator.services.reconcile.reconciler import Bell
from orchestrator.services.tokens import deed_of

log = logging.getLogger(__name__)

BY = Actor("deadline", Scope.SUBMIT)  # who cancelled, in the audit trail


class Deadlines(Lookout):
    """Looks which deadlines have passed.

    Args:
        poll_s: the longest pause between looks, in seconds.
    """

    def __init__(self, context: Context, bell: Bell, poll_s: float = POLL_S) -> None:
        super().__init__("deadlines", bell)
        self._context = context
        self._poll_s = poll_s

    def look(self) -> float:
        """One pass: cancel what is overdue; the seconds until the next deadline.

        Raises:
            StoreUnavailable: the database is away; what was cancelled before stays so.
        """
        now = self._context.clock.now()
        left = self._context.store.deadlines()
        for experiment_id in (one for one, at in left.items() if at <= now):
            log.info("the deadline of %s has passed: what is left of it is cancelled", experiment_id)
            try:
                deed = deed_of(BY, now, "cancel", experiment_id)
                self._context.store.cancel_experiment(experiment_id, now, deed)
            except NotFound:
                continue  # it was removed meanwhile
            self._context.wake()
        return min([self._poll_s, *(at - now for at in left.values() if at > now)])
