"""A model whose layers wait instead of computing: as long as those of a profiled training did, on one device.

Its parameters have the sizes of that network, so that what is exchanged, by which rule and with which library, is what
a training of it exchanges. Many hosts can be tried on few cores, as a wait takes none; what an exchange takes from
cores that compute does not show. Nothing of it is a measurement of training.
"""

import time
from typing import List, NamedTuple, Sequence

from workers.trainer.base.job import Job


class Layer(NamedTuple):
    """``numbers``: how many parameters of single precision; seconds of its passes."""

    name: str
    numbers: int
    forward_s: float
    backward_s: float


def layers_of(job: Job) -> List[Layer]:
    """Return the layers, the one next to the input first."""
    return [Layer("layer%03d" % number, *one) for number, one in enumerate(job.model.facts["replayed"], 1)]


class Pass(object):
    """One pass over layers, each of which ends when it did in the training: what else runs meanwhile (copies into a
    bucket, the wake-up of a sleeper) delays one layer, and not all that follow."""

    def __init__(self, seconds: Sequence[float]) -> None:
        self._seconds = seconds
        self._next, self._end = 0, 0.0

    def wait(self) -> None:
        """Return when the next layer ends. The first begins now."""
        if self._next == 0:
            self._end = time.monotonic()
        self._end += self._seconds[self._next]
        self._next = (self._next + 1) % len(self._seconds)
        time.sleep(max(0.0, self._end - time.monotonic()))
