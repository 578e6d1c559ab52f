"""The model that waits: how long each step takes, of what parts, and the faults it can be told to have."""

import os
import random
import signal
import subprocess
import sys
import time
from typing import Any, Iterator, List, Mapping, Optional, Tuple

from workers.trainer.base.job import Job, Process
from workers.trainer.base.signatures import Work


def build(job: Job, process: Process, options: Mapping[str, Any]) -> "Model":
    """Return the model; building takes ``options["build_time_s"]``."""
    time.sleep(options["build_time_s"])
    rank = process.rank
    faulty = options["fault_rank"] in (-1, rank)
    # Each repetition and each rank has noise of its own, and the same again when it is repeated.
    seed = "%s/%s/%s" % (job.plan.seed, job.plan.repetition, rank)
    samples = job.plan.per_device_batch_size or 1
    model = Model(options, seed, samples, options["fault"] if faulty else "none", job.events_path)
    if NOTES in os.environ:
        model.note_in(os.path.join(os.environ[NOTES], "%s.%d" % (job.attempt_id, os.getpid())))
    return model


# A folder where each process notes by itself that it lives, for tests that believe nobody else.
NOTES = "SLEEP_NOTES"


# The parts of a step in order, with their shares of its time: two imaginary layers, there and back, and the update.
PARTS = (
    ("first.forward", 0.1),
    ("second.forward", 0.2),
    ("second.backward", 0.4),
    ("first.backward", 0.2),
    ("update", 0.1),
)
BYTES_PER_NUMBER = 4


class Model(object):
    """Waits for a step's time; on ``fault_step`` (counted from 1) it has its fault."""

    def __init__(
        self, options: Mapping[str, Any], seed: str, samples: int, fault: str, events_path: Optional[str]
    ) -> None:
        self._options = options
        self._random = random.Random(seed)
        self._samples = samples
        self._fault = fault
        self._events_path = events_path
        self._steps = 0
        self._feature_maps = b""
        self._kept = []  # type: List[bytes]
        self._notes = None  # type: Optional[str]

    def note_in(self, path: str) -> None:
        """Write the time into the file ``path``, and touch it at every step."""
        with open(path, "w") as file:
            file.write("%r\n" % time.time())
        self._notes = path

    def step(self) -> Work:
        """Wait; return the work done."""
        self._steps += 1
        if self._notes:
            os.utime(self._notes, None)
        if self._steps == self._options["fault_step"] and self._fault in FAULTS:
            FAULTS[self._fault](self)
        # Kept until the next step: the peak is that of one step. Zeros that nobody touches take no memory of the host,
        # but count towards the limit of the process.
        self._feature_maps = b""
        self._feature_maps = bytes(self._options.get("sample_bytes", 0) * self._samples)
        self._kept.append(bytes(self._options.get("kept_bytes", 0) * self._samples))
        self.wait()
        return {"samples": self._samples}

    def wait(self) -> float:
        """Wait for one step's time; return it in seconds."""
        step_s = step_time(self._options, self._fault, self._steps, self._random)
        time.sleep(step_s)
        return step_s

    @property
    def parameters(self) -> int:
        """How many imaginary weights there are."""
        return self._options.get("parameters", 0)

    def layers(self) -> List[Tuple[str, int]]:
        """Return the imaginary layers as (name, bytes of its weights), in the order of the forward pass."""
        first = self.parameters // 4
        return [("first", BYTES_PER_NUMBER * first), ("second", BYTES_PER_NUMBER * (self.parameters - first))]

    def timed_parts(self) -> Iterator[Tuple[str, float, float]]:
        """Wait for one step's time part by part; yield (name, start, duration), in seconds of CLOCK_MONOTONIC."""
        step_s = step_time(self._options, self._fault, self._steps, self._random)
        for name, share in PARTS:
            begun = time.monotonic()
            time.sleep(share * step_s)
            yield name, begun, time.monotonic() - begun

    def allocate(self, steps: int) -> Iterator[Tuple[str, int, int]]:
        """Allocate as a training of the weights would, for ``steps`` steps: yield (class, bytes, step) of each.

        Freed bytes are negative; step 0 is the build. Feature maps are as large as the weights, for each sample.
        """
        if self._fault == "no_memory_profile":
            raise MemoryError("asked to run out of memory in the profile")
        kept = []
        for _, size in self.layers():
            kept.append(bytearray(size))
            yield "weights", size, 0
        for step in range(1, steps + 1):
            maps = []
            for _, size in self.layers():
                maps.append(bytearray(size * self._samples))
                yield "feature_maps", size * self._samples, step
            for _, size in reversed(self.layers()):
                if step == 1:
                    kept.append(bytearray(size))
                    yield "weight_gradients", size, step
                maps.pop()
                yield "feature_maps", -size * self._samples, step
            for _, size in self.layers():
                if step == 1:
                    kept.append(bytearray(size))
                    yield "optimizer_state", size, step

    def loss(self) -> float:
        """A loss that falls, and is no number from ``fault_step`` on where the fault is ``nan``."""
        if self._fault == "nan" and self._steps >= self._options["fault_step"]:
            return float("nan")
        return 1.0 + 1.0 / (1.0 + 0.1 * self._steps)

    def spoil_log(self) -> None:
        """Write into our own events what is no event."""
        with open(self._events_path, "a") as file:
            file.write("this is not an event\n")


def step_time(options: Mapping[str, Any], fault: str, step: int, generator: random.Random) -> float:
    """Return the seconds that ``step`` takes. ``unsteady`` jumps between two speeds, ``drift`` gets ever slower."""
    step_s = options["step_time_s"] * (1.0 + options["noise_ratio"] * generator.gauss(0.0, 1.0))
    if fault == "drift":
        step_s *= 1.0 + 0.01 * step
    if fault == "unsteady":
        step_s *= 3.0 if generator.random() < 0.3 else 1.0
    return max(step_s, 0.0)


def _out_of_memory(model):
    raise MemoryError("asked to run out of memory")


def _crash(model):
    raise RuntimeError("asked to crash")


def _signal(model):
    os.kill(os.getpid(), signal.SIGKILL)


def _hang(model):
    while True:
        time.sleep(3600.0)


def _exit(model):
    os._exit(3)


def _leak_child(model):
    """Start a grandchild in a session of its own: whoever ends only our process group leaves it behind."""
    waiting = "import time; time.sleep(600)"
    subprocess.Popen([sys.executable, "-c", waiting], start_new_session=True)


# Faults that happen at one step; ``nan``, ``unsteady`` and ``drift`` are no event but a way of being, and
# ``no_memory_profile`` happens to the processes of that profile only.
FAULTS = {
    "out_of_memory": _out_of_memory,
    "crash": _crash,
    "signal": _signal,
    "hang": _hang,
    "exit": _exit,
    "garbage": Model.spoil_log,
    "leak_child": _leak_child,
}
