"""Removes the readings of old runs, where the setting TBD_KEEP_READINGS_DAYS says so."""

import logging

from orchestrator.services.context import Context
from orchestrator.services.lookout import Lookout
from orchestrator.services.reconcile.reconciler import Bell

log = logging.getLogger(__name__)

# Judgements: seconds between looks and between parts, and attempts that are looked up at once.
LOOK_S, PART_S, MOST = 3600.0, 0.05, 100


class Thinning(Lookout):
    """Looks which runs have ended long enough ago.

    Args:
        keep_s: seconds after its end for which an attempt's readings are kept.
    """

    def __init__(self, context: Context, keep_s: float) -> None:
        super().__init__("thinning", Bell())
        self._context = context
        self._keep_s = keep_s

    def look(self) -> float:
        """One pass: thin what is old; the seconds until the next one.

        Raises:
            StoreUnavailable: the database is away; what was thinned before stays so.
        """
        store, now, thinned = self._context.store, self._context.clock.now(), 0
        while not self._closing.is_set() and (found := store.with_old_readings(now - self._keep_s, MOST)):
            for attempt_id in found:
                while store.thin(attempt_id, now) and not self._closing.wait(PART_S):
                    pass
            thinned += len(found)
        if thinned:
            log.info("the readings of %d attempts were removed: they ended too long ago to be kept", thinned)
        return LOOK_S
