"""Whether the reconciler of this process still makes passes: what /readyz tells. A service without one has no pulse."""

import math

# After that long without a pass nobody's runs go on. A judgement: well beyond a pass over many nodes.
LONGEST_S = 30.0


class Pulse:
    """Written by the reconciler, read by others."""

    def __init__(self) -> None:
        self._last = math.inf
        self._trouble = "it hangs"
        self.count = 0  # of passes, completed or broken off

    def beat(self, now: float) -> None:
        """A pass was completed at ``now`` (monotonic seconds)."""
        self._last, self._trouble = now, "it hangs"
        self.count += 1

    def trouble(self, reason: str) -> None:
        """A pass was broken off."""
        self._trouble = reason
        self.count += 1

    def missed(self, now: float) -> str | None:
        """Why no pass was completed for ``LONGEST_S``; None where one was, or nobody makes any."""
        since = now - self._last
        return f"no pass over the runs was completed for {since:.0f} s: {self._trouble}" if since > LONGEST_S else None
