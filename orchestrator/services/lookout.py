"""What looks again and again in a thread of its own, and at once where somebody rings."""

import abc
import logging
import threading

from orchestrator.domain.words.errors import ClusterUnavailable, StoreUnavailable
from orchestrator.services.reconcile.reconciler import Bell

log = logging.getLogger(__name__)

# Judgements.
POLL_S = 10.0  # between looks: experiments may have ended
TROUBLE_S = 5.0  # before another try where the database or the cluster is away
RESPITE_S = 0.2  # between looks at least: what a person does rings the bell as well


class Lookout(abc.ABC):
    """Runs until ``close``; a ``bell`` that is rung makes it look now.

    Args:
        name: of its thread.
    """

    def __init__(self, name: str, bell: Bell) -> None:
        self._name = name
        self._bell = bell
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @abc.abstractmethod
    def look(self) -> float:
        """One pass; the seconds until the next one.

        Raises:
            StoreUnavailable: the database is away; what was done before stays so.
            ClusterUnavailable: the cluster is.
        """

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop after the pass in progress."""
        self._closing.set()
        self._bell.ring()
        if self._thread.is_alive():
            self._thread.join(timeout=30)

    def _run(self) -> None:
        while not self._closing.is_set():
            pause_s = TROUBLE_S
            try:
                pause_s = self.look()
            except (StoreUnavailable, ClusterUnavailable) as error:
                log.warning("%s; trying again", error)
            except Exception:  # a mistake of ours must not end the service: say so and go on
                log.exception("a pass of the %s failed", self._name)
            self._bell.wait(pause_s)
            self._closing.wait(RESPITE_S)
