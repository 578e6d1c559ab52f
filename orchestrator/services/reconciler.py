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
        """Wake the reconciler when agents have news. Its own pace keeps the service out of a measurement's way: news of
        a young run is brought at once, of an old one every second."""
        while not self._closing.is_set():
            positions, youngest_s = self._positions()
            if not positions:
                self._closing.wait(0.05)
                continue
            try:
                self._context.cluster.wait(positions, timeout_s=1.0)
            except (ClusterUnavailable, StoreUnavailable):
                self._closing.wait(TROUBLE_S)
            self._awake.set()
            self._closing.wait(pace_s(youngest_s))

    def _positions(self) -> tuple[Mapping[str, Mapping[str, int]], float]:
        """node -> attempt -> last number stored, of open attempts; and the age in seconds of the youngest."""
        view = self._view
        positions: dict[str, dict[str, int]] = {}
        ages = []
        for run in view.runs if view else ():
            if run.attempt is None or run.state not in HOLDS_DEVICES:
                continue
            ages.append(self._context.clock.now() - run.attempt.created_at)
            try:
                stored = self._context.store.last_seqs(run.attempt.id)
            except StoreUnavailable:
                return {}, 0.0
            for node in run.attempt.placement.nodes:
                positions.setdefault(node, {})[run.attempt.id] = stored.get(node, 0)
        return positions, min(ages, default=0.0)


def pace_s(age_s: float) -> float:
    """Least time between looks at a run of this age: a twentieth of it, between 0.05 and 1 s. A judgement."""
    return min(1.0, max(0.05, age_s / 20))
