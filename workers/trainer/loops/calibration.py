"""The timed loop of a calibration: how many operations a second a device can do at best, by precision.

What is timed are products of two matrices of random numbers (zeros draw less power, and so run faster than data does),
of a stated set of shapes, after the device has been under load for half a minute: clocks and temperatures have then
settled where training finds them. A framework's module of the model (``suites.models.calibration``) has no clock; it
offers

``library``, ``device``            names, for the record
``arithmetics()``                  those that the device does: fp32, tf32, bf16, fp16
``prepare(arithmetic, m, n, k)``   random matrices of m x k and k x n, and room for the product
``multiply()``                     one product; it may return before the device is done
``synchronize()``                  return when the device is done
``error()``                        greatest relative error of some elements of the last product: was it computed?
``close()``                        let go of all memory

All ranks load their devices at once, as training does: rank 0 says over the control channel how many repetitions come
next, so a run that is cancelled ends between two of them. A repetition is so many products that it lasts 0.1 s or more
on a GPU, and one product on a CPU device.
"""

import math
import time
from typing import Any, List, Tuple

from workers.trainer import host
from workers.trainer.base.failure import TrainerError
from workers.trainer.base.job import Job, Process
from workers.trainer.base.signatures import Adapter, Clock, Emit
from workers.trainer.control import Channel
from workers.trainer.loops.session import Microbenchmark

# (m, n, k) of a product of m x k and k x n.
Shape = Tuple[int, int, int]

# Judgements. Cubes and slabs of the sizes that networks have; on GPUs large enough to fill the device.
SHAPES = {
    "cpu": ((512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (4096, 1024, 1024)),
    "cuda": ((4096, 4096, 4096), (8192, 8192, 8192), (16384, 8192, 4096), (16384, 16384, 16384)),
}
REPETITION_S = {"cpu": 0.0, "cuda": 0.1}
LOAD_CHUNK_S = 1.0
LEAST = 3
# Relative error of one element that a correct product of random numbers may have, by arithmetic: generous, for what is
# looked for is a product that was not computed at all.
TOLERANCE = {"fp32": 1e-3, "tf32": 2e-2, "bf16": 1e-1, "fp16": 2e-2}


def flops(shape: Shape) -> float:
    """Return the operations of one product: two per multiply-add."""
    m, n, k = shape
    return 2.0 * m * n * k


def shapes_of(job: Job, kind: str) -> List[Shape]:
    """Return the shapes (m, n, k) that the job's options name, or those for devices of ``kind``.

    Raises:
        TrainerError: ``setup_failed``, the option is no list of shapes such as ``1024,4096x1024x1024``.
    """
    text = job.model.options["shapes"]
    if text == "auto":
        return list(SHAPES[kind])
    try:
        sides: List[Any] = [tuple(int(side) for side in part.split("x")) for part in text.split(",")]
    except ValueError:
        sides = [()]
    if any(len(part) not in (1, 3) or min(part) < 1 for part in sides):
        raise TrainerError("setup_failed", "shapes=%r: write 1024,4096x1024x1024, or auto" % text)
    return [part * 3 if len(part) == 1 else part for part in sides]


class Calibration(Microbenchmark):
    """Runs one process of a calibration from ``join`` to ``finished``; reports through ``emit(kind, **data)``."""

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
        self._kind = process.device_kind
        self._options = job.model.options
        self._products: Any = None

    def run(self) -> None:
        """Do the whole run.

        Raises:
            TrainerError: this rank or another one cannot go on, or a product is wrong.
            Exception: whatever the framework raises; the caller translates it by the adapter.
        """
        self._prepare()
        reason = self._measure()
        self._tell_clocks()
        self._products.close()
        self._finish(reason, self._adapter.memory() or host.peak_resident())

    def _prepare(self):
        self._meet()
        begun = self._clock()
        self._products = self._module().open_products(self._job, self._process)
        shapes = [list(shape) for shape in shapes_of(self._job, self._kind)]
        self._built(begun, self._products.device, mathematics={"shapes": shapes})

    def _measure(self):
        """Load the device, then time every arithmetic and shape; return why it ended."""
        cells = [(name, shape) for name in self._arithmetics() for shape in shapes_of(self._job, self._kind)]
        loaded_s, stopped = self._load(cells[0])
        for cell in cells:
            stopped = stopped or self._cell(cell, loaded_s)
        return stopped or self._turn(None)["stop"]

    def _arithmetics(self):
        able, asked = self._products.arithmetics(), self._options["arithmetics"]
        if asked == "auto":
            return able
        missing = [name for name in asked.split(",") if name not in able]
        if missing:
            raise TrainerError("unsupported", "%s does not do %s" % (self._products.device, ", ".join(missing)))
        return asked.split(",")

    def _load(self, cell):
        """Keep the device busy for ``load_s``; return how long it was, and why the run is to stop, if it is."""
        once_s = self._warm_up(cell)
        begun, stopped = self._clock(), None
        while stopped is None:
            left_s = self._options["load_s"] - (self._clock() - begun)
            if left_s <= 0:
                number = 0
            else:
                number = max(1, int(min(LOAD_CHUNK_S, left_s) / once_s))
            order = self._turn(("warmup", number))
            stopped = order.get("stop")
            if not order.get("go"):
                break
            self._repeat(order["go"])
        return self._clock() - begun, stopped

    def _warm_up(self, cell):
        """Make the matrices of ``cell`` and multiply them; return the seconds of one product."""
        arithmetic, (m, n, k) = cell
        self._products.prepare(arithmetic, m, n, k)
        self._repeat(1)
        error = self._products.error()
        if not error <= TOLERANCE[arithmetic]:  # also when it is not a number
            told = "a %s product of %d x %d x %d is off by %r" % (arithmetic, m, n, k, error)
            raise TrainerError("crashed", told, self._process.ranks)
        return max(self._repeat(2) / 2.0, 1e-9)

    def _cell(self, cell, loaded_s):
        """Time one arithmetic and shape; return why the run is to stop, or None."""
        once_s = self._warm_up(cell)
        products = max(1, int(math.ceil(REPETITION_S[self._kind] / once_s)))
        repetitions = max(LEAST, int(self._options["measure_s"] / (products * once_s)))
        order = self._turn(("timed", repetitions))
        if "stop" in order:
            return order["stop"]
        timed = [self._repeat(products) for _ in range(order["go"])]
        self._repetitions += len(timed)
        self._emit(
            "calibration",
            arithmetic=cell[0],
            shape=list(cell[1]),
            library=self._products.library,
            flops=flops(cell[1]) * products,
            products=products,
            loaded_s=loaded_s,
            duration_s=timed,
        )
        return None

    def _repeat(self, number):
        """Return the seconds that ``number`` products take."""
        begun = self._clock()
        for _ in range(number):
            self._products.multiply()
        self._products.synchronize()
        return self._clock() - begun
