"""The threads that run passes of the reconciler: woken by submissions, cancellations and news from the agents."""

import logging
import threading
from collections.abc import Mapping

from orchestrator.domain.errors import ClusterUnavailable, StoreUnavailable
from orchestrator.domain.run import HOLDS_DEVICES
from orchestrator.services.context import Context
from orchestrator.services.reconcile import Observer, View, apply, decide

log = logging.getLogger(__name__)

IDLE_S = 2.0  # between passes when nothing happens: agents must hear from the server well within their fence
TROUBLE_S = 1.0  # before another try when the database or the cluster is away
# Least and greatest pause between looks at the logs of running attempts. News of a young run is brought at once; of an
# old one seldom, because the service must keep out of the way of what it measures. A judgement.
PACE_S = (0.05, 3.0)
ONLY_ITS_END = 2**62  # a number that no entry of a log ever has
MAX_PASSES = 20  # passes in a row that find more to do, before giving others a turn


class Reconciler:
    """Runs until ``close``. Setting the event ``awake`` makes it look now."""

    def __init__(self, context: Context, awake: threading.Event, fence_s: float) -> None:
        self._context = context
        self._awake = awake
        self._observer = Observer(context, fence_s)
        self._closing = threading.Event()
        self._view: View | None = None
        self._threads = [
            threading.Thread(target=self._run, name="reconciler", daemon=True),
            threading.Thread(target=self._listen, name="listener", daemon=True),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop after the pass in progress. What runs on the nodes goes on."""
        self._closing.set()
        self._awake.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(timeout=30)

    def reconcile(self) -> None:
        """Passes until there is nothing left to do now."""
        for _ in range(MAX_PASSES):
            view = self._observer.observe()
            self._view = view
            self._context.cluster.let_go(view.attempts.keys())
            if not apply(self._context, decide(view)):
                return

    def _run(self) -> None:
        clock = self._context.clock
        while not self._closing.is_set():
            self._awake.clear()
            began = clock.monotonic()
            try:
                self.reconcile()
                # At most half of the time in passes, however often it is woken: the rest is for those who ask.
                self._closing.wait(min(clock.monotonic() - began, TROUBLE_S))
            except (StoreUnavailable, ClusterUnavailable) as error:
                log.warning("%s; trying again", error)
                self._closing.wait(TROUBLE_S)
            except Exception:  # a mistake of ours must not end the service: say so and go on
                log.exception("a pass of the reconciler failed")
                self._closing.wait(TROUBLE_S)
            else:
                self._awake.wait(IDLE_S)

    def _listen(self) -> None:
        """Wake the reconciler when an attempt has ended, and from time to time for what logs have gained."""
        while not self._closing.is_set():
            attempts, youngest_s = self._open_attempts()
            if attempts:
                try:
                    self._context.cluster.wait(attempts, timeout_s=pace_s(youngest_s))
                except ClusterUnavailable:
                    self._closing.wait(TROUBLE_S)
                self._awake.set()
            self._closing.wait(PACE_S[0])

    def _open_attempts(self) -> tuple[Mapping[str, Mapping[str, int]], float]:
        """node -> attempt -> ``ONLY_ITS_END``; and the age in seconds of the youngest."""
        view = self._view
        attempts: dict[str, dict[str, int]] = {}
        ages = []
        for run in view.runs if view else ():
            if run.attempt and run.state in HOLDS_DEVICES:
                ages.append(self._context.clock.now() - run.attempt.created_at)
                for node in run.attempt.placement.nodes:
                    attempts.setdefault(node, {})[run.attempt.id] = ONLY_ITS_END
        return attempts, min(ages, default=0.0)


def pace_s(age_s: float) -> float:
    """Seconds between looks at the logs of a run of this age: a twentieth of it, within ``PACE_S``."""
    return min(PACE_S[1], max(PACE_S[0], age_s / 20))
