"""The framework that only waits: it trains nothing, takes exactly known time and fails on request.

Everything else of the system is tested with it, by real processes and without installing a framework. Its profiles are
as true as those of the others: it sleeps in named parts and times them, and it allocates what it says it does.
"""

import platform
import time
import tracemalloc
from typing import Iterator, Optional

from suites import modules
from workers.trainer import protocol
from workers.trainer.base.job import Job, Process
from workers.trainer.base.signatures import Array, Data, Watch, Work

_NOTHING_COPIED = "nothing is copied to a device"


class Adapter(object):
    """See ``workers.trainer.frameworks``."""

    abilities = ("activity", "kernels", "layers", "memory")
    switches = ()

    def __init__(self) -> None:
        self._model = None

    def versions(self) -> Data:
        return {"framework": "sleep", "version": platform.python_version(), "libraries": {}}

    def join(self, job: Job, process: Process) -> int:
        return job.world_size

    def build(self, job: Job, process: Process, watch: Watch) -> Data:
        self._model = _model_of(job, process)
        mathematics = {"precision": job.plan.precision}
        return {"parameters": self._model.parameters, "mathematics": mathematics, "device": "none"}

    def step(self) -> Work:
        return self._model.step()

    def synchronize(self) -> None:
        """Nothing is under way when a step has returned."""

    def loss(self) -> float:
        return self._model.loss()

    def activity(self, steps: int) -> Data:
        """The waiting is the operator, so it is active all the time."""
        waited_s = sum(self._model.wait() for _ in range(steps))
        return {"active_s": waited_s, "elapsed_s": waited_s, "method": "waited"}

    def kernels(self, steps: int) -> Data:
        """Each part of a step is an operator; the profiler is two looks at the clock."""
        begun = time.monotonic()
        parts = [part for _ in range(steps) for part in self._model.timed_parts()]
        elapsed_s = time.monotonic() - begun
        names = sorted({name for name, _, _ in parts})
        rows = []
        for name in names:
            durations = [duration for other, _, duration in parts if other == name]
            rows.append([name, len(durations), sum(durations)])
        items = [[names.index(name), 0, start, duration] for name, start, duration in parts]
        return {
            "steps": steps,
            "elapsed_s": elapsed_s,
            "active_s": sum(duration for _, _, duration in parts),
            "method": "timed sleeps",
            "rows": rows,
            "spans": {"names": names, "lanes": ["main thread"], "items": items},
        }

    def layers(self, steps: int) -> Data:
        """The parts of a step are named after layers and directions."""
        begun = time.monotonic()
        seconds = {}
        for _ in range(steps):
            for name, _, duration in self._model.timed_parts():
                seconds[name] = seconds.get(name, 0.0) + duration / steps
        rows = [
            {
                "name": layer,
                "kind": "Sleep",
                "parameters_bytes": size,
                "forward_s": seconds[layer + ".forward"],
                "backward_s": seconds[layer + ".backward"],
            }
            for layer, size in self._model.layers()
        ]
        breakdown = {
            "input_s": 0.0,
            "host_to_device_s": None,
            "forward_s": sum(row["forward_s"] for row in rows),
            "backward_s": sum(row["backward_s"] for row in rows),
            "exchange_s": 0.0,
            "update_s": seconds["update"],
            "reasons": {"host_to_device_s": _NOTHING_COPIED},
        }
        return {
            "steps": steps,
            "elapsed_s": time.monotonic() - begun,
            "method": "timed sleeps",
            "serialised": False,
            "breakdown": breakdown,
            "rows": rows,
            "exchanges": [],
        }

    def memory_profile(self, job: Job, process: Process, watch: Watch) -> Data:
        """Allocate what the model says it needs; the peak is what Python's own tracer of allocations has seen."""
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            self._model = _model_of(job, process)
            steps = 3
            allocations = [
                [protocol.MEMORY_CLASSES.index(name), size, step] for name, size, step in self._model.allocate(steps)
            ]
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        return {
            "method": "allocations of the model that waits",
            "steps": steps,
            "classes": list(protocol.MEMORY_CLASSES),
            "allocations": allocations,
            "peak_bytes": peak - before,
            "peak_method": "peak of tracemalloc since before the build",
            "outside_bytes": None,
            "peak_from_step": 0,
        }

    def memory(self) -> Optional[Data]:
        return None

    def forget_peak(self) -> Optional[int]:
        return None

    def weights(self, index: int) -> Iterator[Array]:
        """None: it trains nothing."""
        return iter(())

    def close(self) -> None:
        self._model = None

    def failure_of(self, error: BaseException) -> Optional[str]:
        return None


def _model_of(job, process):
    return modules.part_of(job, "sleep").build(job, process, job.model.options)
