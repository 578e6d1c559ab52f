"""How long a run may last, by how long completed runs of its cell did. No shape of their durations is assumed.

Of n earlier ones and the next, all alike, each is as likely as any other to be the longest: so the next one lasts
longer than the k-th shortest of them with probability (n + 1 - k) / (n + 1).
"""

import math
from collections.abc import Sequence

# A judgement: one in ten lasts longer than is reckoned with, and what is reckoned with is not much longer than usual.
SURE = 0.9
LEAST = 9  # so many earlier runs it takes for the longest, or the shortest, of them to be so sure


def at_most_s(durations: Sequence[float]) -> float | None:
    """Seconds that the next run lasts at most, as sure as ``SURE``; None where too few are known to say."""
    if len(durations) < LEAST:
        return None
    return sorted(durations)[math.ceil(SURE * (len(durations) + 1)) - 1]
