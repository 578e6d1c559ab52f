"""The threads that run passes of the reconciler: woken by submissions, cancellations and news from the agents."""

import itertools
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout

from orchestrator.domain.asked.placement import NodeState
from orchestrator.domain.runs.run import HOLDS_DEVICES, RunState
from orchestrator.domain.words.errors import ClusterUnavailable, StoreUnavailable
from orchestrator.services.context import Context
from orchestrator.services.reconcile.application import Hands
from orchestrator.services.reconcile.decisions import Fetch, decide
from orchestrator.services.reconcile.lanes import PATIENCE_S, Lanes
from orchestrator.services.reconcile.situation import Lookout, Situation, Word
from orchestrator.services.reconcile.trouble import Troubles

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
LOOK_S = 10.0  # longest time of a look; a judgement
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
    """Runs until ``close``; a ``bell`` that is rung makes it look now. ``patience_s``: see ``Lanes``;
    ``look_s``: longest time that a look may take before another one is begun beside it."""

    def __init__(
        self, context: Context, bell: Bell, fence_s: float, patience_s: float = PATIENCE_S, look_s: float = LOOK_S
    ) -> None:
        self._context = context
        self._bell = bell
        self._look_s = look_s
        self._lanes = Lanes(self._came_late, patience_s)
        troubles: Troubles[str] = Troubles(context.clock)
        self._lookout = Lookout(context, fence_s, self._lanes, troubles)
        self._hands = Hands(context, self._lanes, troubles)
        self._looks = itertools.count(1)
        self._closing = threading.Event()
        self._situation: Situation | None = None
        self._looked = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, name="reconciler", daemon=True),
            threading.Thread(target=self._listen, name="listener", daemon=True),
        ]

    def start(self) -> None:
        self._context.pulse.beat(self._context.clock.monotonic())
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
        self._lanes.settle(self._lanes.under_way())

    def reconcile(self) -> None:
        """Passes until there is nothing left to do now.

        Raises:
            StoreUnavailable, ClusterUnavailable: there is nothing to look at.
        """
        if self._bell.was_rung():
            self._lookout.forget()
        for _ in range(MAX_PASSES):
            changed = self._pass()
            self._context.pulse.beat(self._context.clock.monotonic())
            if not changed:
                return
        self._bell.ring()  # there is more to do

    def _pass(self) -> bool:
        """Look, decide, apply; whether there may be more to do at once."""
        situation = self._look()
        self._situation = situation
        self._looked.set()
        actions = decide(situation)
        try:
            return self._hands.apply(actions, list(situation.over))
        finally:
            if not all(isinstance(action, Fetch) for action in actions):
                self._lookout.forget()  # it was changed, also by an action that failed

    def _look(self) -> Situation:
        """In a lane of its own: where the database hangs, this thread does not, and the next look may do better."""
        under_way = self._hands.under_way()
        answer: Future[Situation] = Future()

        def look() -> None:
            try:
                answer.set_result(self._lookout.look(under_way))
            except Exception as error:
                answer.set_exception(error)

        self._lanes.put(f"look {next(self._looks)}", look)
        try:
            return answer.result(self._look_s)
        except FutureTimeout:
            raise StoreUnavailable(f"the database or the cluster has not answered for {self._look_s:g} s") from None

    def _came_late(self) -> None:
        self._lookout.forget()
        if self._hands.changed:
            self._bell.ring()

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
                self._context.pulse.trouble(str(error))
                self._closing.wait(TROUBLE_S)
            except Exception as error:  # a mistake of ours must not end the service: say so and go on
                log.exception("a pass of the reconciler failed")
                self._context.pulse.trouble(f"{type(error).__name__}: {error}")
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
            except Exception:  # without its hints passes come later, but they come
                log.exception("attempts cannot be listened to")
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
    """node -> attempt -> ``ONLY_ITS_END``; a node that fails would answer at once, again and again."""
    attempts: dict[str, dict[str, int]] = {}
    suspect = {node.name for node in situation.nodes if node.state is NodeState.SUSPECT} if situation else ()
    for run in situation.runs if situation else ():
        if run.attempt and run.state in HOLDS_DEVICES:
            for node in set(run.attempt.placement.nodes).difference(suspect):
                attempts.setdefault(node, {})[run.attempt.id] = ONLY_ITS_END
    return attempts


def pace_s(age_s: float, is_followed: bool) -> float:
    """Seconds between looks at the logs of a run of this age."""
    share, (least, most) = (FOLLOWED_SHARE, FOLLOWED_S) if is_followed else (PACE_SHARE, PACE_S)
    return min(most, max(least, age_s * share))
