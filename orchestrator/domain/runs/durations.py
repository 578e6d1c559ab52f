"""How long a run may last, by how long completed runs of its cell did. No shape of their durations is assumed.

Of n earlier ones and the next, all alike, each is as likely as any other to be the longest: so the next one lasts
longer than the k-th shortest of them with probability (n + 1 - k) / (n + 1).
"""

import math
from collections.abc import Sequence

# Judgements: one in twenty lasts longer than is reckoned with, which is not much longer than usual; and how many
# earlier runs it takes: by the longest of nine one in ten is misjudged, and one in twenty by that of nineteen.
SURE, LEAST = 0.95, 9


def at_most_s(durations: Sequence[float]) -> float | None:
    """Seconds that the next run lasts at most, as sure as ``SURE``, or as the longest of the known ones is; None where
    too few are known to say."""
    if len(durations) < LEAST:
        return None
    return sorted(durations)[min(len(durations), math.ceil(SURE * (len(durations) + 1))) - 1]


def left_at_least_s(durations: Sequence[float], lasted_s: float) -> float:
    """Seconds that a run which has ``lasted_s`` goes on for at least, as sure, by those that lasted longer; 0 where too
    few did to say."""
    longer = sorted(one for one in durations if one > lasted_s)
    if len(longer) < LEAST:
        return 0.0
    return longer[max(1, len(longer) + 1 - math.ceil(SURE * (len(longer) + 1))) - 1] - lasted_s
