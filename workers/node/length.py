"""When an attempt has trained for long enough: intervals are counted, the decision is logged, rank 0 is told."""

from __future__ import annotations

import time
from typing import Any, Mapping

from workers.node import stop_channel
from workers.node.event_log import EventLog
from workers.node.stopping import StoppingRule
from workers.trainer import protocol

_TELL_AGAIN_S = 0.5


class Length:
    """The length of the timed phase of one attempt.

    Args:
        job: the completed job, with the control channel's address by the time that there are intervals.
        leads: whether rank 0 is on this node: only there is decided.
    """

    def __init__(self, job: Mapping[str, Any], leads: bool) -> None:
        self._job = job
        self._leads = leads
        self._rule = StoppingRule(job["stopping"])
        self._decision: dict[str, Any] | None = None
        self._tell_at: float | None = None
        # When the processes that run now reported their first timed interval, by the monotonic clock.
        self.timing_since: float | None = None

    def begun(self) -> None:
        """A rank of this node, whichever, has reported a timed interval."""
        self.timing_since = self.timing_since or time.monotonic()

    def add(self, interval: Mapping[str, Any]) -> None:
        """Take in the data of a timed interval of rank 0.

        Raises:
            ValueError, TypeError, KeyError: it is an interval that cannot be.
        """
        self.begun()
        work = self._work(interval["work"])
        self._rule.add(protocol.number(interval["duration_s"]), work, interval["n"])

    def decide(self, log: EventLog, now: float, reachable: bool) -> None:
        """Decide when the length is reached, and tell rank 0 until it has heard it; ``reachable``: it may still run."""
        if self._decision is None and self._leads and self.timing_since is not None:
            self._decision = self._rule.decision()
            if self._decision is not None:
                log.append("stopping_decided", **self._decision)
                self._tell_at = now
        if self._tell_at is not None and now >= self._tell_at and self._decision is not None and reachable:
            told = stop_channel.send_stop(self._job, self._decision["reason"])
            self._tell_at = None if told else now + _TELL_AGAIN_S

    def begin_anew(self) -> None:
        """Other processes take over: what was decided is not for them."""
        self.timing_since, self._tell_at = None, None

    def _work(self, work: Any) -> float:
        """Return the amount of work in the model's own unit; ``work`` may count in several units."""
        if isinstance(work, dict):
            work = work[self._job["model"]["work_unit"]] if len(work) > 1 else next(iter(work.values()))
        return float(protocol.number(work))
