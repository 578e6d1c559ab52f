"""Images without an emulator: random brightnesses, all equally often, with rewards and ends as rare as Pong's."""

from typing import Any, Optional, Tuple

from suites.datasets.games import Opener
from workers.trainer.base.signatures import Array

# So many images are drawn, and shown in turn: drawing one takes longer than some emulators do.
POOL = 16
# Judgements, near a Pong that is played at random: agent steps between two rewards, and of a game.
BETWEEN, LENGTH = 40, 900


class Noise(object):
    def __init__(self, side: int, seed: int) -> None:
        import numpy

        self._generator = numpy.random.RandomState(seed)
        self._images_PHW = self._generator.randint(0, 256, (POOL, side, side)).astype(numpy.uint8)
        self._steps = 0

    def begin(self) -> Array:
        return self._images_PHW[0]

    def step(self, action: int) -> Tuple[Array, float, bool]:
        self._steps += 1
        reward, chance = 0.0, self._generator.uniform()
        if chance < 1.0 / BETWEEN:
            reward = 1.0 if chance < 0.5 / BETWEEN else -1.0
        return self._images_PHW[self._steps % POOL], reward, self._generator.uniform() < 1.0 / LENGTH


def opener(root: Optional[str], side: int, actions: int) -> Opener:
    """See ``suites.datasets.games``."""

    def opened(seed: int) -> Any:
        return Noise(side, seed)

    return opened
