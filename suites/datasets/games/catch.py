"""A control task of few states: a ball falls over a board of 7 x 7 fields, and a bat below has to be where it lands.

At each agent step the bat goes one field to the left or to the right, or stays, and then the ball falls by one. After
six the game is over: its reward is 1 where the ball meets the bat, else -1. Who plays well always scores 1; at random
it is about -0.6.

Source: Mnih, Heess, Graves, Kavukcuoglu, "Recurrent Models of Visual Attention", 2014, section 4.3, by its rules in
bsuite (Osband et al., "Behaviour Suite for Reinforcement Learning", 2020: catch), with another board.
"""

from typing import Any, Optional, Tuple

from suites.datasets.games import Opener
from workers.trainer.base.failure import TrainerError
from workers.trainer.base.signatures import Array

FIELDS = 7
# What an action moves the bat by: as those of Pong, nothing, fire, right, left, and both with fire.
MOVES = (0, 0, 1, -1, 1, -1)


class Catch(object):
    def __init__(self, side: int, seed: int) -> None:
        import numpy

        self._generator = numpy.random.RandomState(seed)
        self._side = side
        self._row = self._ball = self._bat = 0

    def begin(self) -> Array:
        self._row, self._ball, self._bat = 0, int(self._generator.randint(FIELDS)), FIELDS // 2
        return self._image()

    def step(self, action: int) -> Tuple[Array, float, bool]:
        self._bat = min(max(self._bat + MOVES[action], 0), FIELDS - 1)
        self._row += 1
        over = self._row == FIELDS - 1
        return self._image(), (1.0 if self._ball == self._bat else -1.0) if over else 0.0, over

    def _image(self):
        import numpy

        fields = numpy.zeros((FIELDS, FIELDS), numpy.uint8)
        fields[FIELDS - 1, self._bat] = 128
        fields[self._row, self._ball] = 255
        times = self._side // FIELDS
        return fields.repeat(times, axis=0).repeat(times, axis=1)


def opener(root: Optional[str], side: int, actions: int) -> Opener:
    """See ``suites.datasets.games``.

    Raises:
        TrainerError: ``setup_failed``, for images of that side, or for so many actions, it is not made.
    """
    if side % FIELDS or actions != len(MOVES):
        told = "catch has %d actions and images whose side is a multiple of %d, not %d actions and %d pixels"
        raise TrainerError("setup_failed", told % (len(MOVES), FIELDS, actions, side))

    def opened(seed: int) -> Any:
        return Catch(side, seed)

    return opened
