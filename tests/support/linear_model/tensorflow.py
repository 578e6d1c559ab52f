"""The linear fit in TensorFlow."""

import itertools

import tensorflow as tf

from tests.support import linear_model
from workers.trainer.base import updates


class Model:
    def __init__(self, job):
        self._job = job
        self.variables = [tf.Variable(linear_model.weights())]

    @property
    def updates(self):
        return updates.whole(self.loss, self.variables, linear_model.rule(self._job))

    def batches(self, rank):
        batch = tuple(tf.constant(array) for array in linear_model.samples(self._job.world_size, rank))
        return itertools.repeat((batch, {"images": int(batch[0].shape[0])}))

    def loss(self, batch):
        inputs, targets = batch
        return tf.reduce_mean(tf.square(tf.matmul(inputs, self.variables[0]) - targets))


def build(job, process):
    return Model(job)
