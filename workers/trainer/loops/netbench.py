"""The timed loop of a netbench: how long messages take between ranks, by size, idle and with busy cores.

A framework's module of the model (``suites.models.netbench``) has no clock, as an adapter has none: it offers an
exchange of fp32 vectors,

``library``, ``device``         names, for the record
``fill(count, head)``           a vector of so many random numbers that begins with ``head``; and room for another one
``head(count)``                 how the vector begins; ``received(count)``: the same of what was received last
``scale(factor)``               multiply the vector
``all_reduce()``                the vector becomes the sum over all ranks
``send(rank)``, ``receive(rank)``   the vector to, and another one from that rank
``synchronize()``               return when the device is done
``queues``                      whether a call only queues what the device does later, as on GPUs
``close()``                     let go of all memory

Repetitions follow each other at once, as in nccl-tests and the OSU micro-benchmarks. Where calls return when they are
done, each is timed on its own. Where they queue, so many are queued before one wait, and each time in the log is their
mean (``queued``): so nccl-tests times, and so the exchange of a backward pass runs; to wait for each would add the
host's way to the device and back. An entry without ``queued`` has times of single calls, each waited for. A
point-to-point repetition is a round trip between the first ranks of two nodes (of two devices where one node takes
part), an all-reduce one call. Rank 0 says over the control channel how many come next: so all ranks do the same
number, a run that is cancelled ends between two sizes, and the number follows the time that is left.
"""

import collections
import math
import os
import random
import time
from typing import Any, Dict, Iterable, List, Tuple

from workers.trainer import host
from workers.trainer.base.failure import TrainerError
from workers.trainer.base.job import Job, Process
from workers.trainer.base.signatures import Adapter, Clock, Data, Emit
from workers.trainer.control import Channel
from workers.trainer.loops.busy import busy_cores
from workers.trainer.loops.session import Microbenchmark

# (busy_cores, operation, ranks, bytes): what is measured at once.
Case = Tuple[bool, str, Tuple[int, ...], int]

POINT_TO_POINT, ALL_REDUCE = "point_to_point", "all_reduce"
SMALLEST_BYTES = 4
BYTES_PER_NUMBER = 4
HEAD = 64  # numbers that are checked after the warm-up

# Judgements. Small messages need more repetitions before connections and caches are warm; a size gets a second, three
# repetitions at least.
WARM_UP_SMALL, WARM_UP_LARGE, LARGE_BYTES = 20, 2, 2**16
LEAST, MOST, SIZE_S = 3, 200, 1.0
QUEUED = 20  # nccl-tests, README, "-n,--iters": its default
TOLERANCE = 1e-4  # relative, of the sum of a few fp32 numbers in any order


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


def cases(job: Job) -> List[Case]:
    """Return what is measured, in order: (busy_cores, operation, ranks, bytes)."""
    everyone = tuple(range(job.world_size))
    operations = [(POINT_TO_POINT, pair) for pair in pairs(job)] + [(ALL_REDUCE, everyone)]
    steps = sizes(job.model.options["max_bytes"])
    return [(busy, name, ranks, size) for busy in (False, True) for name, ranks in operations for size in steps]


def head_of(rank: int, count: int) -> List[float]:
    """Return the first numbers of a rank's vector: all ranks know them of all ranks, and can check what arrives."""
    numbers = random.Random(rank)
    return [numbers.random() for _ in range(min(count, HEAD))]


class Pace(object):
    """Rank 0's choice of how many repetitions come next, within the time for all of them.

    Each case gets a second, or its share of what is left: a small budget costs repetitions before it costs sizes.
    """

    def __init__(self, budget_s: float, clock: Clock, to_come: Iterable[Case]) -> None:
        self._clock = clock
        self._end = clock() + budget_s
        self._kept_s = budget_s / 2.0
        self._seen: Dict[Case, float] = {}
        self._to_come = collections.Counter(case[0] for case in to_come)

    def warm_up(self, case: Case) -> int:
        """Return how many repetitions to warm up with; 0: the case is left out, there is no time for it."""
        busy, operation, ranks, size = case
        self._to_come[busy] -= 1
        number = WARM_UP_LARGE if size > LARGE_BYTES else WARM_UP_SMALL
        before = self._seen.get((busy, operation, ranks, size // 2), 0.0 if size == SMALLEST_BYTES else None)
        if before is None:
            return 0
        expected_s = 2.0 * before if size > LARGE_BYTES else before
        return number if expected_s * (number + LEAST) <= self._left(busy) else 0

    def repetitions(self, case: Case, seconds: float) -> int:
        """Return how many to time, after a warm-up of which the last repetition took ``seconds``."""
        self._seen[case] = seconds
        share_s = self._left(case[0]) / (self._to_come[case[0]] + 1)
        wanted = min(SIZE_S, share_s) / max(seconds, 1e-9)
        return max(LEAST, min(MOST, int(wanted)))

    def _left(self, busy):
        """Half of the time is kept for what comes last, the same with busy cores."""
        left_s = self._end - self._clock()
        return left_s if busy else left_s - self._kept_s


class Netbench(Microbenchmark):
    """Runs one process of a netbench from ``join`` to ``finished``; reports through ``emit(kind, **data)``."""

    def __init__(
        self,
        job: Job,
        process: Process,
        adapter: Adapter,
        channel: Channel,
        emit: Emit,
        clock: Clock = time.perf_counter,
    ) -> None:
        super().__init__(job, process, adapter, channel, emit, clock)
        self._rank = process.rank
        self._skipped: List[Data] = []
        self._exchange: Any = None
        self._pace: Any = None

    def run(self) -> None:
        """Do the whole run.

        Raises:
            TrainerError: this rank or another one cannot go on, or what was exchanged is wrong.
            Exception: whatever the framework raises; the caller translates it by the adapter.
        """
        self._prepare()
        self._pace = Pace(float(self._job.model.options["budget_s"]), self._clock, cases(self._job))
        reason = self._measure()
        self._tell_clocks()
        self._exchange.close()
        self._finish(reason, host.peak_resident(), skipped=self._skipped)

    def _prepare(self):
        if self._job.world_size < 2:
            raise TrainerError("unsupported", "netbench needs two ranks or more: a topology such as 1x2 or 2x1")
        self._meet()
        begun = self._clock()
        self._exchange = self._module().open_exchange(self._job, self._process)
        self._built(begun, self._exchange.device, mathematics={}, exchange={"library": self._exchange.library})

    def _measure(self):
        """Go through all cases; return why it ended."""
        everything = cases(self._job)
        for busy in (False, True):
            with busy_cores(cores_of(self._job, self._process) if busy else ()):
                for case in everything:
                    if case[0] != busy:
                        continue
                    stopped = self._case(case)
                    if stopped:
                        return stopped
        # All ranks have come to the end: the order is the last one, at which clocks are compared.
        return self._turn(None)["stop"]

    def _case(self, case):
        """Warm up and time one case; return why the run is to stop, or None."""
        busy, operation, ranks, size = case
        number = size // BYTES_PER_NUMBER
        order = self._turn(("warmup", self._pace.warm_up(case)))
        if "stop" in order:
            return order["stop"]
        if not order["go"]:
            self._skipped.append({"operation": operation, "bytes": size, "busy_cores": busy})
            return None
        taking_part = self._rank in ranks
        warm = [0.0]
        if taking_part:
            self._exchange.fill(number, head_of(self._rank, number))
            warm = self._repeat(operation, ranks, order["go"], number)
        order = self._turn(("timed", self._pace.repetitions(case, warm[-1])))
        if "stop" in order:
            return order["stop"]
        if taking_part:
            timed = self._repeat(operation, ranks, order["go"])
            queued = self._queued(operation, ranks, order["go"])
            self._repetitions += len(timed) * queued
            # Of a pair the rank that begins has seen the whole round trip.
            if operation == ALL_REDUCE or self._rank == ranks[0]:
                self._report(case, timed, queued)
        return None

    def _report(self, case, timed, queued):
        busy, operation, ranks, size = case
        self._emit(
            "exchange",
            operation=operation,
            library=self._exchange.library,
            bytes=size,
            world_size=self._job.world_size,
            ranks=list(ranks),
            busy_cores=busy,
            repetitions=len(timed),
            ways=2 if operation == POINT_TO_POINT else 1,
            duration_s=timed,
            **({"queued": queued} if queued > 1 else {}),
        )

    def _queued(self, operation, ranks, count):
        """Return how many of ``count`` calls are queued before one wait: so many that there are ``LEAST`` means, or
        more, and that a sum in place stays in range. All ranks come to the same number."""
        if not self._exchange.queues:
            return 1
        growth = len(ranks) if operation == ALL_REDUCE else 1
        most = min(QUEUED, rescale_every(growth)) if growth > 1 else QUEUED
        return max(1, min(most, count // LEAST))

    def _repeat(self, operation, ranks, count, checked=0):
        """Return the seconds of each of ``count`` repetitions, or the means of those that are queued together; the
        first one of a warm-up is checked."""
        once = self._all_reduce if operation == ALL_REDUCE else self._ping if self._rank == ranks[0] else self._pong
        # In place, each sum is of ``len(ranks)`` equal vectors after the first: rescaled before it leaves fp32's range.
        growth = len(ranks) if operation == ALL_REDUCE else 1
        rest, since = rescale_every(growth), 0
        timed = []
        clock = self._clock
        for number in _portions(count, self._queued(operation, ranks, count), checked):
            if growth > 1 and since + number > rest:
                self._exchange.scale(float(growth) ** -since)
                since = 0
            begun = clock()
            for _ in range(number):
                once(ranks)
            self._exchange.synchronize()
            timed.append((clock() - begun) / number)
            since += number
            if checked and len(timed) == 1:
                self._check(operation, ranks, checked)
        if growth > 1 and since:
            self._exchange.scale(float(growth) ** -since)
        return timed

    def _all_reduce(self, ranks):
        self._exchange.all_reduce()

    def _ping(self, ranks):
        self._exchange.send(ranks[1])
        self._exchange.receive(ranks[1])

    def _pong(self, ranks):
        self._exchange.receive(ranks[0])
        self._exchange.send(ranks[0])

    def _check(self, operation, ranks, number):
        """Raises ``TrainerError`` (crashed) if what was exchanged is not what it should be."""
        if operation == ALL_REDUCE:
            heads = [head_of(rank, number) for rank in ranks]
            found, wanted = self._exchange.head(len(heads[0])), [math.fsum(column) for column in zip(*heads)]
        else:
            wanted = head_of(ranks[1] if self._rank == ranks[0] else ranks[0], number)
            found = self._exchange.received(len(wanted))
        if any(not abs(a - b) <= TOLERANCE * abs(b) for a, b in zip(found, wanted)):
            told = "%s of %d numbers by %s gave wrong ones" % (operation, number, self._exchange.library)
            raise TrainerError("crashed", told, [self._rank])


def _portions(count, queued, checked):
    """Return the numbers of calls between two waits. The first call of a warm-up is alone: it is checked. What is left
    over is left out of a timed phase, and done in a warm-up."""
    if queued == 1:
        return [1] * count
    first = [1] if checked else []
    whole, left = divmod(count - len(first), queued)
    return first + ([left] if checked and left else []) + [queued] * whole


def rescale_every(growth: int) -> int:
    """Return after how many sums in place, each ``growth`` times the one before, a vector is scaled back."""
    return max(1, int(60.0 / math.log(growth, 2))) if growth > 1 else 1


def cores_of(job: Job, process: Process) -> List[int]:
    """Return the cores that this process keeps busy: those of its CPU devices; with GPUs, which have none of their own,
    its share of all that the processes of its node may use."""
    own = sorted({core for device in process.devices for core in device.cores})
    if own:
        return own
    beside = sorted(p.rank for p in job.processes if p.ranks and p.node == process.node)
    return sorted(os.sched_getaffinity(0))[beside.index(process.rank) :: len(beside)]
