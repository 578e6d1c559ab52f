"""What a netbench measures, in which order and how often: operations, ranks, sizes, and the time for them."""

import collections
from typing import Dict, Iterable, List, Mapping, Sequence, Tuple

from workers.trainer.base.job import Job
from workers.trainer.base.signatures import Clock

# (busy_cores, operation, ranks, bytes): what is measured at once.
Case = Tuple[bool, str, Tuple[int, ...], int]
# The same of all sizes.
Series = Tuple[bool, str, Tuple[int, ...]]

POINT_TO_POINT, PUSH, PULL, ALL_REDUCE = "point_to_point", "push", "pull", "all_reduce"
# In the order in which they are measured. All but the first are done by all ranks together.
OPERATIONS = (POINT_TO_POINT, PUSH, PULL, ALL_REDUCE)
SMALLEST_BYTES = 4
BYTES_PER_NUMBER = 4

# Judgements. Small messages need more repetitions before connections and caches are warm; a size gets a second, three
# repetitions at least.
WARM_UP_SMALL, WARM_UP_LARGE, LARGE_BYTES = 20, 2, 2**16
LEAST, MOST, SIZE_S = 3, 200, 1.0
# Where a line through the sizes below and above misses a time by more, what is beside it is looked at closely.
MISS = 0.1


def sizes(max_bytes: int) -> List[int]:
    """Return the powers of two from 4 to ``max_bytes``."""
    return [SMALLEST_BYTES << k for k in range(32) if SMALLEST_BYTES << k <= max_bytes]


def pairs(job: Job) -> List[Tuple[int, int]]:
    """Return the pairs of ranks that exchange messages: the first ranks of the first node and of each other one; of one
    node the first two."""
    first: Dict[str, int] = {}
    for process in job.processes:
        if process.ranks:
            first[process.node] = min(first.get(process.node, process.rank), process.rank)
    leaders = sorted(first.values())
    return [(leaders[0], other) for other in leaders[1:]] or [(0, 1)]


def cases(job: Job, operations: Sequence[str]) -> List[Case]:
    """Return what is measured of ``operations`` in any case, in order: (busy_cores, operation, ranks, bytes)."""
    everyone = tuple(range(job.world_size))
    asked = [(POINT_TO_POINT, pair) for pair in pairs(job)] + [(name, everyone) for name in OPERATIONS[1:]]
    steps = sizes(job.model.options["max_bytes"])
    return [
        (busy, name, ranks, size)
        for busy in (False, True)
        for name, ranks in asked
        if name in operations
        for size in steps
    ]


def in_between(times: Mapping[int, float]) -> List[int]:
    """Return sizes in bytes between neighbouring powers of two where segments of a library seem to meet: a size that
    is off the line through its two neighbours has a change of latency or rate beside it.

    Both gaps beside it are divided into four; those beside the largest miss come first.

    Args:
        times: size -> seconds, of neighbouring powers of two.
    """
    misses: Dict[int, float] = {}
    powers = sorted(times)
    for below, size, above in zip(powers, powers[1:], powers[2:]):
        line = times[below] + (times[above] - times[below]) * (size - below) / (above - below)
        miss = abs(line / times[size] - 1.0)
        if miss > MISS:
            for gap in (below, size):
                misses[gap] = max(miss, misses.get(gap, 0.0))
    found = []
    for gap in sorted(misses, key=lambda gap: (-misses[gap], gap)):
        whole = {(gap + quarters * gap // 4) // BYTES_PER_NUMBER * BYTES_PER_NUMBER for quarters in (1, 2, 3)}
        found.extend(sorted(whole - {gap}))
    return found


class Pace(object):
    """Rank 0's choice of how many repetitions come next, within the time for all of them.

    Each case gets a second, or its share of what is left: a small budget costs repetitions before it costs sizes. Each
    operation that is to come has an equal share of what is left of its load: slow messages between two ranks must not
    leave nothing for what all do together.
    """

    def __init__(self, budget_s: float, clock: Clock, to_come: Iterable[Case]) -> None:
        self._clock = clock
        self._end = clock() + budget_s
        self._kept_s = budget_s / 2.0
        self._seen: Dict[Case, float] = {}
        # (busy_cores, operation, ranks) -> how many cases of it are to come.
        self._to_come = collections.Counter(case[:-1] for case in to_come)

    def add(self, series: Series, count: int) -> None:
        """Take in that so many more cases are to come."""
        self._to_come[series] += count

    def end(self, series: Series) -> None:
        """Take in that no more of its cases are to come."""
        self._to_come[series] = 0

    def warm_up(self, case: Case) -> int:
        """Return how many repetitions to warm up with; 0: the case is left out, there is no time for it."""
        self._to_come[case[:-1]] -= 1
        return self._number(case) if self.has_time(case) else 0

    def has_time(self, case: Case) -> bool:
        """Return whether there is time for the fewest repetitions of ``case``."""
        expected_s = self._expected_s(case)
        return expected_s is not None and expected_s * (self._number(case) + LEAST) <= self._left(case[:-1])

    def _number(self, case):
        return WARM_UP_LARGE if case[-1] > LARGE_BYTES else WARM_UP_SMALL

    def _expected_s(self, case):
        """Seconds of a repetition, from the next smaller power of two, or between two of them from the larger one;
        None: that one was left out."""
        size = case[-1]
        power = 1 << (size - 1).bit_length()
        if size == SMALLEST_BYTES:
            return 0.0
        if size < power:
            return self._seen.get(case[:-1] + (power,))
        before = self._seen.get(case[:-1] + (size // 2,))
        return 2.0 * before if before is not None and size > LARGE_BYTES else before

    def repetitions(self, case: Case, seconds: float) -> int:
        """Return how many to time, after a warm-up of which the last repetition took ``seconds``."""
        self._seen[case] = seconds
        # Of cases that rank 0 alone has chosen, the others' own counts know nothing; what they choose is not asked for.
        to_come = max(0, self._to_come[case[:-1]])
        share_s = max(0.0, self._left(case[:-1]) - self._larger_s(case, seconds, to_come)) / (to_come + 1)
        wanted = min(SIZE_S, share_s) / max(seconds, 1e-9)
        return max(LEAST, min(MOST, int(wanted)))

    def _larger_s(self, case, seconds, count):
        """Return the least that the ``count`` next powers of two will take: a training sends large messages most of the
        time, and they must not be left out for more repetitions of small ones."""
        total_s = 0.0
        if case[-1] & (case[-1] - 1):  # between two powers: what comes next is as likely smaller
            return total_s
        for _ in range(count):
            case = case[:-1] + (2 * case[-1],)
            seconds = 2.0 * seconds if case[-1] > LARGE_BYTES else seconds
            total_s += seconds * (self._number(case) + LEAST)
        return total_s

    def _left(self, series):
        """Half of the time is kept for what comes last, the same with busy cores."""
        left_s = self._end - self._clock()
        of_load_s = left_s if series[0] else left_s - self._kept_s
        others = sum(count > 0 for one, count in self._to_come.items() if one[0] == series[0] and one != series)
        return of_load_s / (1 + others)
