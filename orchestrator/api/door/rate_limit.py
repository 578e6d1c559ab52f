"""Limits how often one caller asks: a bucket of tokens for each, which fills at a steady rate (as in RFC 2697)."""

from collections import OrderedDict
from collections.abc import Callable

MOST_CALLERS = 10_000  # that are remembered; a judgement: 2 MB


class Buckets:
    """A bucket for each caller: ``rate`` requests a second, ``burst`` of them at once. ``rate`` 0: no limit."""

    def __init__(self, rate: float, burst: float, monotonic: Callable[[], float]) -> None:
        self._rate = rate
        self._burst = burst
        self._monotonic = monotonic
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # caller -> (left, when that was), by age

    def take(self, caller: str) -> float:
        """Count a request of ``caller``; 0, or the seconds after which the next one would be served."""
        if not self._rate:
            return 0.0
        now = self._monotonic()
        left, at = self._left.pop(caller, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._rate)
        wait_s = 0.0 if left >= 1 else (1 - left) / self._rate
        self._left[caller] = (left if wait_s else left - 1, now)
        if len(self._left) > MOST_CALLERS:
            self._left.popitem(last=False)
        return wait_s
