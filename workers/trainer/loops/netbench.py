"""The timed loop of a netbench: how long messages take between ranks, by size, idle and with busy cores.

A framework's module of the model (``suites.models.netbench``) has no clock, as an adapter has none: it offers an
exchange of fp32 vectors,

``library``, ``device``         names, for the record
``operations``                  those of ``OPERATIONS`` that the library has; no other one is measured, or called
``fill(count, heads)``          for each rank that the process drives a vector of so many random numbers that begins
                                with its head; and room for as many others
``heads(count)``                how each vector begins; ``received(count)``: the same of what was received last
``scale(factor)``               multiply the vectors; not called with ``mean``
``all_reduce()``                each vector becomes the sum over all ranks, or where the exchange says ``mean`` the mean
``push()``, ``pull()``          the vectors to the servers, which add up those of all ranks; their last sum from there
``send(rank)``, ``receive(rank)``   the vector to, and another one from that rank
``synchronize()``               return when the device is done
``queues``                      whether a call only queues what the device does later, as on GPUs
``close()``                     let go of all memory

Repetitions follow each other at once, as in nccl-tests and the OSU micro-benchmarks. Where calls return when they are
done, each is timed on its own. Where they queue, so many are queued before one wait, and each time in the log is their
mean (``queued``): so nccl-tests times, and so the exchange of a backward pass runs; to wait for each would add the
host's way to the device and back. An entry without ``queued`` has times of single calls, each waited for. A
point-to-point repetition is a round trip between the first ranks of two nodes (of two devices where one node takes
part), of any other operation one call. Rank 0 says over the control channel how many come next: so all ranks do the
same number, a run that is cancelled ends between two sizes, and the number follows the time that is left.

Sizes are the powers of two first, and then, of what all ranks do together and in the time that is left, some between
two of them where a library seems to change what it does (``in_between``).
"""

import collections
import math
import os
import random
import time
from typing import Any, Dict, List

from workers.trainer import host
from workers.trainer.base.failure import TrainerError
from workers.trainer.base.job import Job, Process
from workers.trainer.base.signatures import Adapter, Clock, Data, Emit
from workers.trainer.control import Channel
from workers.trainer.loops.busy import busy_cores
from workers.trainer.loops.netbench_plan import (
    ALL_REDUCE,
    BYTES_PER_NUMBER,
    LEAST,
    POINT_TO_POINT,
    PULL,
    PUSH,
    Pace,
    cases,
    in_between,
)
from workers.trainer.loops.session import Microbenchmark

HEAD = 64  # numbers that are checked after the warm-up
QUEUED = 20  # nccl-tests, README, "-n,--iters": its default
TOLERANCE = 1e-4  # relative, of the sum of a few fp32 numbers in any order


def head_of(rank: int, count: int) -> List[float]:
    """Return the first numbers of a rank's vector: all ranks know them of all ranks, and can check what arrives."""
    numbers = random.Random(rank)
    return [numbers.random() for _ in range(min(count, HEAD))]


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
        # Of each load, operation and ranks: size -> the least of this rank's times, which others' work disturbs least.
        self._least: Dict[Any, Dict[int, float]] = collections.defaultdict(dict)
        self._exchange: Any = None
        self._pace: Any = None

    def run(self) -> None:
        """Do the whole run.

        Raises:
            TrainerError: this rank or another one cannot go on, or what was exchanged is wrong.
            Exception: whatever the framework raises; the caller translates it by the adapter.
        """
        self._prepare()
        to_come = cases(self._job, self._exchange.operations)
        self._pace = Pace(float(self._job.model.options["budget_s"]), self._clock, to_come)
        reason = self._measure()
        self._tell_clocks()
        self._exchange.close()
        self._finish(reason, host.peak_resident(), skipped=self._skipped)

    def _prepare(self):
        if self._job.world_size < 2:
            raise TrainerError("unsupported", "netbench needs two ranks or more: a topology such as 1x2 or 2x1")
        self._meet()
        begun = self._clock()
        self._exchange = self._module().open_exchange(self._job, self._process, self._adapter)
        self._built(begun, self._exchange.device, mathematics={}, exchange={"library": self._exchange.library})

    def _measure(self):
        """Go through all cases; return why it ended."""
        everything = cases(self._job, self._exchange.operations)
        for busy in (False, True):
            with busy_cores(cores_of(self._job, self._process) if busy else ()):
                stopped = self._under_load(busy, [case for case in everything if case[0] == busy])
            if stopped:
                return stopped
        # All ranks have come to the end: the order is the last one, at which clocks are compared.
        return self._turn(None)["stop"]

    def _under_load(self, busy, own):
        """Go through the cases of one load, and what lies between them; return why the run is to stop, or None."""
        for case in own:
            stopped = self._case(case)
            if stopped:
                return stopped
        for name, ranks in collections.OrderedDict.fromkeys(case[1:3] for case in own if case[1] != POINT_TO_POINT):
            stopped = self._between((busy, name, ranks))
            if stopped:
                return stopped
        return None

    def _between(self, series):
        """Time sizes between those of ``series``, (busy_cores, operation, ranks). Rank 0 has chosen them by its own
        times, and says one after the other, then 0."""
        chosen = in_between(self._least[series])
        self._pace.add(series, len(chosen))
        to_come = iter(chosen)
        while True:
            size = next((one for one in to_come if self._pace.has_time(series + (one,))), 0)
            order = self._turn(("between", size))
            if "stop" in order:
                return order["stop"]
            if not order["go"]:
                self._pace.end(series)
                return None
            stopped = self._case(series + (order["go"],))
            if stopped:
                return stopped

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
            self._exchange.fill(number, [head_of(rank, number) for rank in sorted(self._process.ranks)])
            if operation == PULL:  # so that there is something to be had
                self._exchange.push()
                self._exchange.synchronize()
            warm = self._repeat(operation, ranks, order["go"], number)
        order = self._turn(("timed", self._pace.repetitions(case, warm[-1])))
        if "stop" in order:
            return order["stop"]
        if taking_part:
            timed = self._repeat(operation, ranks, order["go"])
            queued = self._queued(operation, ranks, order["go"])
            self._repetitions += len(timed) * queued
            self._least[case[:-1]][size] = min(timed)
            # Of a pair the rank that begins has seen the whole round trip.
            if operation != POINT_TO_POINT or self._rank == ranks[0]:
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
        growth = self._growth(operation, ranks)
        most = min(QUEUED, rescale_every(growth)) if growth > 1 else QUEUED
        return max(1, min(most, count // LEAST))

    def _growth(self, operation, ranks):
        """Return how many times as large a vector is after the operation. In place, each sum is of ``len(ranks)`` equal
        vectors after the first."""
        return len(ranks) if operation == ALL_REDUCE and not self._exchange.mean else 1

    def _repeat(self, operation, ranks, count, checked=0):
        """Return the seconds of each of ``count`` repetitions, or the means of those that are queued together; the
        first one of a warm-up is checked."""
        once = self._call(operation, ranks)
        # A sum is rescaled before it leaves fp32's range.
        growth = self._growth(operation, ranks)
        rest, since = rescale_every(growth), 0
        timed = []
        clock = self._clock
        for number in _portions(count, self._queued(operation, ranks, count), checked):
            if growth > 1 and since + number > rest:
                self._exchange.scale(float(growth) ** -since)
                since = 0
            begun = clock()
            for _ in range(number):
                once()
            self._exchange.synchronize()
            timed.append((clock() - begun) / number)
            since += number
            if checked and len(timed) == 1:
                self._check(operation, ranks, checked)
        if growth > 1 and since:
            self._exchange.scale(float(growth) ** -since)
        return timed

    def _call(self, operation, ranks):
        """Return what this rank calls for one repetition."""
        if operation == POINT_TO_POINT:
            first, second = ranks
            return (lambda: self._ping(second)) if self._rank == first else (lambda: self._pong(first))
        if operation == PUSH:
            return self._exchange.push
        return self._exchange.pull if operation == PULL else self._exchange.all_reduce

    def _ping(self, rank):
        self._exchange.send(rank)
        self._exchange.receive(rank)

    def _pong(self, rank):
        self._exchange.receive(rank)
        self._exchange.send(rank)

    def _check(self, operation, ranks, number):
        """Raises ``TrainerError`` (crashed) if what was exchanged is not what it should be."""
        heads = [head_of(rank, number) for rank in ranks]
        length = len(heads[0])
        if operation == POINT_TO_POINT:
            wanted = heads[1] if self._rank == ranks[0] else heads[0]
        else:
            divisor = len(ranks) if operation == ALL_REDUCE and self._exchange.mean else 1
            wanted = [math.fsum(column) / divisor for column in zip(*heads)]
        if operation == PUSH:
            self._exchange.pull()
        found = self._exchange.heads(length) if operation == ALL_REDUCE else self._exchange.received(length)
        if any(not abs(a - b) <= TOLERANCE * abs(b) for vector in found for a, b in zip(vector, wanted)):
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
