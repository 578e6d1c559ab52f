"""The one timed loop. Every framework is timed by it, so every framework is timed alike.

An adapter (``workers.trainer.frameworks``) has no clock. Inside an interval there are only the
adapter's steps and its ``synchronize``; emitting, reading the loss and deciding to go on happen between intervals.
"""

import math
import time
from typing import Any, Iterable, Iterator

from workers.trainer import host, profiling, replica
from workers.trainer.base.failure import TrainerError
from workers.trainer.base.job import Job, Process
from workers.trainer.base.signatures import Adapter, Clock, Emit
from workers.trainer.base.work import total
from workers.trainer.control import Channel
from workers.trainer.loops.pace import Pace
from workers.trainer.loops.session import Session


class Watch(object):
    """Adds up the time spent waiting for the next batch: an adapter wraps its batches in it and stays without clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waited_s = 0.0

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield from ``batches``, an endless iterator, noting how long each took to come."""
        batches = iter(batches)
        while True:
            before = self._clock()
            batch = next(batches)
            self._waited_s += self._clock() - before
            yield batch

    def take(self) -> float:
        """Return the seconds waited since the last call."""
        waited_s, self._waited_s = self._waited_s, 0.0
        return waited_s


class Loop(Session):
    """Runs one process of an attempt from ``join`` to ``finished``; reports through ``emit(kind, **data)``."""

    def __init__(
        self, job: Job, process: Process, adapter: Adapter, channel: Channel, emit: Emit, clock: Clock = time.monotonic
    ) -> None:
        super().__init__(job, process, adapter, channel, emit, clock)
        self._watch = Watch(clock)
        self._steps = 0
        self._loss = None
        # The peak of memory until the first timed step, where it is not what is counted after it.
        self._warmup_peak_bytes = None
        self._timed = False

    def run(self) -> None:
        """Do the whole run.

        Raises:
            TrainerError: this rank or another one cannot go on.
            Exception: whatever the framework raises; the caller translates it by the adapter.
        """
        self._prepare()
        reason = self._train()
        self._tell_clocks()
        self._emit("stopped", step=self._steps, reason=reason)
        profiled, memory = self._profile(reason)
        self._emit("memory", **memory)
        weights_sha256 = self._compare()
        self._emit(
            "finished", steps=self._steps, profiled_steps=profiled, weights_sha256=weights_sha256, loss=self._loss
        )

    def _prepare(self):
        profiling.check(self._job, self._adapter)
        self._meet()
        before = self._clock()
        built = self._adapter.build(self._job, self._process, self._watch)
        # A dataset's loader has its own way.
        data_on = None if self._job.dataset else self._job.plan.data_on
        self._emit("built", build_s=self._clock() - before, data_on=data_on, **built)

    def _train(self):
        """Run interval after interval until rank 0 says stop; return the reason."""
        multiple = self._job.strategy.step_multiple
        plan = self._job.plan
        pace = Pace(self._job.interval_s, plan.max_steps, multiple, warm_up_s=plan.warm_up_s)
        self._adapter.synchronize()
        while True:
            order = self._channel.turn(self._steps, pace.next())
            if "stop" in order:
                return order["stop"]
            pace.note(order["go"], self._interval(order["phase"], order["go"]))
            self._read_loss()

    def _interval(self, phase, n):
        """Time ``n`` steps, emit the interval, return its duration in seconds."""
        adapter, clock = self._adapter, self._clock
        if phase == "timed" and not self._timed:
            self._timed = True
            self._warmup_peak_bytes = adapter.forget_peak()
        work = []
        self._watch.take()
        begun = clock()
        for _ in range(n):
            work.append(adapter.step())
        adapter.synchronize()
        duration_s = clock() - begun
        self._emit(
            "interval",
            phase=phase,
            first_step=self._steps + 1,
            n=n,
            duration_s=duration_s,
            work=total(work),
            input_s=self._watch.take(),
        )
        self._steps += n
        return duration_s

    def _read_loss(self):
        self._loss = self._adapter.loss()
        self._emit("loss", step=self._steps, value=self._loss)
        if not math.isfinite(self._loss):
            ranks = self._process.ranks
            raise TrainerError("diverged", "the loss is %r after step %d" % (self._loss, self._steps), ranks)

    def _profile(self, reason):
        """Run a few more steps under the framework's profilers, the same number on all ranks.

        Returns that number, and the data of ``memory`` as it was before the profilers that the plan asks for: what
        they keep is not the training's.
        """
        profiled = 0
        if "activity" in self._adapter.abilities and reason != "cancelled":
            profiled = profiling.whole_steps(self._job, profiling.ACTIVITY_STEPS)
            before = self._clock()
            found = self._adapter.activity(profiled)
            self._emit("activity", steps=profiled, cost_s=self._clock() - before, **found)
            self._loss = self._adapter.loss()
        memory = self._adapter.memory() or host.peak_resident()
        if self._warmup_peak_bytes is not None:
            memory["warmup_peak_bytes"] = self._warmup_peak_bytes
        if reason != "cancelled":
            profiled += profiling.phases(self._job, self._adapter, self._emit, self._clock)
        return profiled, memory

    def _compare(self):
        """Say what each replica that this process holds has become; return the checksum of the first one."""
        if self._job.world_size == 1:
            return replica.digest(self._adapter.weights(0))
        found = []
        for index, rank in enumerate(self._process.ranks):
            found.append(replica.describe(self._adapter.weights(index)))
            self._emit("replica", of_rank=rank, **found[-1])
        return found[0]["sha256"]
