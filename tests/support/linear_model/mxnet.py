"""The linear fit in MXNet."""

import itertools

import mxnet as mx

from tests.support import linear_model
from workers.trainer.base import updates


class Model:
    def __init__(self, job, contexts):
        self._job = job
        self._network = mx.gluon.nn.Dense(1, use_bias=False, in_units=linear_model.FEATURES)
        self._network.initialize(ctx=contexts)
        self._network.weight.set_data(mx.nd.array(linear_model.weights().T))
        self._network.hybridize(static_alloc=True, static_shape=True)
        self.parameters = [self._network.weight]

    @property
    def updates(self):
        return updates.whole(self.loss, self.parameters, linear_model.rule(self._job))

    def batches(self, rank):
        batch = [mx.nd.array(array) for array in linear_model.samples(self._job.world_size, rank)]
        return itertools.repeat((batch, {"images": len(batch[0])}))

    def loss(self, batch):
        inputs, targets = batch
        return ((self._network(inputs) - targets) ** 2).mean()


def build(job, contexts):
    return Model(job, contexts)
