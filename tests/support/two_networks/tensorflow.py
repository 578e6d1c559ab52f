"""The two networks in TensorFlow; the gradient penalty by a tape in the tape."""

import tensorflow as tf

from tests.support import two_networks
from workers.trainer.base.updates import Update


class Model:
    def __init__(self, job):
        self._job = job
        self.variables = [tf.Variable(value) for value in two_networks.weights()]
        self._g, self._c = self.variables
        rules = two_networks.RULES
        self.updates = (
            Update("critic", self._critic, [self._c], rules["critic"], times=two_networks.CRITIC_TIMES),
            Update("generator", self._generator, [self._g], rules["generator"]),
        )

    def _judged(self, samples):
        return tf.matmul(samples, self._c)

    def _critic(self, batch):
        samples, noise = batch
        made = tf.stop_gradient(tf.matmul(noise, self._g))
        between = (samples + made) / 2.0
        with tf.GradientTape() as tape:
            tape.watch(between)
            judged = self._judged(between)
        slope = tape.gradient(judged, between)
        penalty = tf.reduce_mean((tf.norm(slope, axis=1) - 1.0) ** 2)
        told = tf.reduce_mean(self._judged(made)) - tf.reduce_mean(self._judged(samples))
        return told + two_networks.PENALTY * penalty

    def _generator(self, batch):
        _, noise = batch
        return -tf.reduce_mean(self._judged(tf.matmul(noise, self._g)))

    @property
    def network(self):
        return two_networks

    def batches(self, rank):
        return two_networks.batches(self._job, rank, lambda arrays: tuple(tf.constant(array) for array in arrays))


def build(job, process):
    return Model(job)
