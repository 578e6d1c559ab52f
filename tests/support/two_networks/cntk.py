"""The two networks in CNTK. The slope of a linear critic is its weight, of which the penalty is taken."""

import cntk

from tests.support import two_networks
from workers.trainer.base.updates import Update


class Model:
    def __init__(self, job):
        self._job = job
        g, c = self.parameters = [cntk.parameter(init=value) for value in two_networks.weights()]
        samples, noise = self.arguments = (
            cntk.input_variable(two_networks.FEATURES),
            cntk.input_variable(two_networks.NOISE),
        )
        made = cntk.times(noise, g)
        penalty = cntk.square(cntk.sqrt(cntk.reduce_sum(cntk.square(c))) - 1.0)
        critic = cntk.reduce_sum(cntk.times(made, c) - cntk.times(samples, c)) + two_networks.PENALTY * penalty
        rules = two_networks.RULES
        self.updates = (
            Update("critic", critic, [c], rules["critic"], times=two_networks.CRITIC_TIMES),
            Update("generator", -cntk.reduce_sum(cntk.times(made, c)), [g], rules["generator"]),
        )

    @property
    def network(self):
        return two_networks

    def batches(self, rank):
        return two_networks.batches(self._job, rank, lambda arrays: tuple(cntk.Value(array) for array in arrays))


def build(job, process):
    return Model(job)
