"""The threads that run passes of the reconciler: woken by submissions, cancellations and news from the agents."""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping

from orchestrator.domain.errors import ClusterUnavailable, StoreUnavailable
from orchestrator.domain.run import HOLDS_DEVICES, RunState
from orchestrator.services.context import Context
from orchestrator.services.reconcile.application import apply
from orchestrator.services.reconcile.decisions import Fetch, decide
from orchestrator.services.reconcile.situation import Lookout, Situation, Word

log = logging.getLogger(__name__)

IDLE_S = 2.0  # between passes when nothing happens: agents must hear from the server well within their fence
TROUBLE_S = 1.0  # before another try when the database or the cluster is away
# The service must keep out of the way of what it measures. So beside attempts that run there is a pass, which brings
# what their logs have gained, only every so often: a share of the youngest attempt's age, within these limits. That an
# attempt has ended is heard at once, and so is what a person asks for. Where somebody follows the entries of a run they
# are brought sooner. Judgements.
PACE_SHARE, PACE_S = 1.0, (0.05, 10.0)
FOLLOWED_SHARE, FOLLOWED_S = 1 / 20, (0.05, 3.0)
LISTEN_S = 1.0  # longest time for which new attempts are not listened to
RESPITE_S = 0.05  # after news, before listening on: they are being seen to
ONLY_ITS_END = 2**62  # a number that no entry of a log ever has
MAX_PASSES = 20  # passes in a row that find more to do, before giving others a turn


class Bell:
    """Wakes the reconciler: ``ring`` when something was stored, ``stir`` when only the logs may have gained."""

    def __init__(self) -> None:
        self._rung = threading.Event()
        self._awake = threading.Event()

    def ring(self) -> None:
        self._rung.set()
        self._awake.set()

    def stir(self) -> None:
        self._awake.set()

    def wait(self, timeout_s: float) -> None:
        """Return at the next ``ring`` or ``stir`` (or at once after one that nobody has heard), or after the time."""
        self._awake.wait(timeout_s)
        self._awake.clear()

    def was_rung(self) -> bool:
        """Whether ``ring`` was called since this was asked last."""
        rung = self._rung.is_set()
        self._rung.clear()
        return rung


class Reconciler:
    """Runs until ``close``; a ``bell`` that is rung makes it look now."""

    def __init__(self, context: Context, bell: Bell, fence_s: float) -> None:
        self._context = context
        self._bell = bell
        self._lookout = Lookout(context, fence_s)
        self._closing = threading.Event()
        self._situation: Situation | None = None
        self._looked = threading.Event()
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
        self._bell.stir()
        self._looked.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(timeout=30)

    def reconcile(self) -> None:
        """Passes until there is nothing left to do now."""
        if self._bell.was_rung():
            self._lookout.forget()
        for _ in range(MAX_PASSES):
            if not self._pass():
                return
        self._bell.ring()  # there is more to do

    def _pass(self) -> bool:
        """Look, decide, apply; whether there may be more to do at once."""
        situation = self._lookout.look()
        self._situation = situation
        self._looked.set()
        self._context.cluster.let_go(situation.attempts.keys())
        actions = decide(situation)
        try:
            return apply(self._context, actions)
        finally:
            if not all(isinstance(action, Fetch) for action in actions):
                self._lookout.forget()  # it was changed, also by an action that failed

    def _run(self) -> None:
        clock = self._context.clock
        while not self._closing.is_set():
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
                self._context.news.tell()
                self._bell.wait(self._pause_s())

    def _listen(self) -> None:
        """Wake the reconciler when an attempt has ended."""
        while not self._closing.is_set():
            self._looked.clear()
            attempts = _open_attempts(self._situation)
            if not attempts:
                self._looked.wait()
                continue
            try:
                if self._context.cluster.wait(attempts, LISTEN_S):
                    self._bell.stir()
                    self._closing.wait(RESPITE_S)
            except ClusterUnavailable:
                self._closing.wait(TROUBLE_S)

    def _pause_s(self) -> float:
        situation, news = self._situation, self._context.news
        return IDLE_S if situation is None else pause_s(situation, self._context.clock.now(), news.is_followed)


def pause_s(situation: Situation, now: float, is_followed: Callable[[Iterable[str]], bool]) -> float:
    """Seconds until the next pass, should nobody wake the reconciler before: longer where attempts run, every one of
    them does, and nothing is amiss."""
    held = [run for run in situation.runs if run.attempt and run.state in HOLDS_DEVICES]
    words = {word for seen in situation.attempts.values() for word in seen.words.values()}
    is_calm = all(run.state is RunState.RUNNING and not run.cancel_requested for run in held)
    if not held or not is_calm or words != {Word.RUNNING}:
        return IDLE_S
    youngest_s = min(now - run.attempt.created_at for run in held if run.attempt)
    return pace_s(youngest_s, is_followed(run.id for run in held))


def _open_attempts(situation: Situation | None) -> Mapping[str, Mapping[str, int]]:
    """node -> attempt -> ``ONLY_ITS_END``."""
    attempts: dict[str, dict[str, int]] = {}
    for run in situation.runs if situation else ():
        if run.attempt and run.state in HOLDS_DEVICES:
            for node in run.attempt.placement.nodes:
                attempts.setdefault(node, {})[run.attempt.id] = ONLY_ITS_END
    return attempts


def pace_s(age_s: float, is_followed: bool) -> float:
    """Seconds between looks at the logs of a run of this age."""
    share, (least, most) = (FOLLOWED_SHARE, FOLLOWED_S) if is_followed else (PACE_SHARE, PACE_S)
    return min(most, max(least, age_s * share))
