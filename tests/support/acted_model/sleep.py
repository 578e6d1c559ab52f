"""The worker: its batches are numbers that its actors make in turn; the last one stands for the loss."""

import time

from tests.support.acted_model import NUMBER
from workers.trainer.base import roles


class Model:
    parameters = 0

    def __init__(self, job, process):
        self._steps = 0
        self._number = None
        with roles.listen(job, process) as server:
            actors = [server.accept()[0].makefile("rb") for _ in roles.beside(job, process)]
        self._actors = sorted(actors, key=self._take)

    def _take(self, actor):
        told = actor.read(NUMBER.size)
        if len(told) < NUMBER.size:
            raise ConnectionError("an actor has gone")
        return NUMBER.unpack(told)[0]

    def step(self):
        self._number = self._take(self._actors[self._steps % len(self._actors)])
        self._steps += 1
        return {"images": 1}

    def wait(self):
        begun = time.monotonic()
        self.step()
        return time.monotonic() - begun

    def loss(self):
        return self._number


def build(job, process, options):
    return Model(job, process)
