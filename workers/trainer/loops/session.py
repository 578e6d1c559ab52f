"""What the timed loops share beside the timing: each meets the other ranks first, and reports how far the clocks of
other nodes differ. ``Loop`` trains; ``Netbench`` and ``Calibration`` are microbenchmarks, which train nothing."""

from suites import modules
from workers.trainer.base.job import Job, Process
from workers.trainer.base.signatures import Adapter, Clock, Emit
from workers.trainer.control import Channel
from workers.trainer.frameworks import fabric


class Session(object):
    """One process of an attempt; it reports through ``emit(kind, **data)``.

    Args:
        channel: the control channel (``workers.trainer.control``).
        clock: the seconds that durations are told in.
    """

    def __init__(
        self, job: Job, process: Process, adapter: Adapter, channel: Channel, emit: Emit, clock: Clock
    ) -> None:
        self._job = job
        self._process = process
        self._adapter = adapter
        self._channel = channel
        self._emit = emit
        self._clock = clock

    def _meet(self):
        """Return when all ranks are there, by the control channel and by the framework's own means."""
        self._emit("versions", **self._adapter.versions())
        self._channel.join()
        self._tell_clocks()
        world_size = self._adapter.join(self._job, self._process)
        self._emit("joined", world_size=world_size, **fabric.used(self._job, self._process))

    def _tell_clocks(self):
        for found in self._channel.take_clocks():
            self._emit("clock", **found)


class Microbenchmark(Session):
    """A session that trains nothing: it times repetitions of what a framework's module of the model offers."""

    def __init__(
        self, job: Job, process: Process, adapter: Adapter, channel: Channel, emit: Emit, clock: Clock
    ) -> None:
        super().__init__(job, process, adapter, channel, emit, clock)
        self._turns = 0
        self._repetitions = 0

    def _module(self):
        """Return the framework's module of the model."""
        return modules.part_of(self._job, self._job.plan.framework)

    def _built(self, begun, device, **described):
        self._emit("built", parameters=0, device=device, build_s=self._clock() - begun, **described)

    def _turn(self, proposal):
        """Return the order of the next turn, which is ``proposal`` of rank 0 unless the run is to stop."""
        order = self._channel.turn(self._turns, proposal)
        self._turns += 1
        return order

    def _finish(self, reason, memory, **more):
        self._emit("stopped", step=self._repetitions, reason=reason, **more)
        self._emit("memory", **memory)
        self._emit("finished", steps=self._repetitions, weights_sha256=None)
