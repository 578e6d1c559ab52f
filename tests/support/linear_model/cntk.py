"""The linear fit in CNTK."""

import itertools

import cntk

from tests.support import linear_model
from workers.trainer.base import updates


class Model:
    def __init__(self, job):
        self._job = job
        weights = cntk.parameter(init=linear_model.weights())
        self.parameters = [weights]
        inputs, targets = self.arguments = (cntk.input_variable(linear_model.FEATURES), cntk.input_variable(1))
        self.criterion = cntk.reduce_sum(cntk.square(cntk.times(inputs, weights) - targets))

    @property
    def updates(self):
        return updates.whole(self.criterion, self.parameters, linear_model.rule(self._job))

    def batches(self, rank):
        inputs, targets = linear_model.samples(self._job.world_size, rank)
        return itertools.repeat(((cntk.Value(inputs), cntk.Value(targets)), {"images": len(inputs)}))


def build(job, process):
    return Model(job)
