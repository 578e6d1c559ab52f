"""The two networks in MXNet. The slope of a linear critic is its weight, of which the penalty is taken."""

import mxnet as mx

from tests.support import two_networks
from workers.trainer.base.updates import Update


class Critic(mx.gluon.HybridBlock):
    """The critic's loss, given what the generator made."""

    def __init__(self):
        super().__init__()
        self.weight = self.params.get("weight", shape=(two_networks.FEATURES, 1))

    def hybrid_forward(self, F, samples, made, weight):  # noqa: N803
        penalty = (F.sqrt(F.sum(weight * weight)) - 1.0) ** 2
        told = F.mean(F.dot(made, weight)) - F.mean(F.dot(samples, weight))
        return told + two_networks.PENALTY * penalty


class Generator(mx.gluon.HybridBlock):
    """The generator's loss; it shares the weight of ``critic``."""

    def __init__(self, critic):
        super().__init__(params=critic.params)
        self.made = self.params.get("made", shape=(two_networks.NOISE, two_networks.FEATURES))
        self.critic = self.params.get("weight", shape=critic.weight.shape)

    def hybrid_forward(self, F, noise, made, critic):  # noqa: N803
        return -F.mean(F.dot(F.dot(noise, made), critic))


class Model:
    def __init__(self, job, contexts):
        self._job = job
        self._critic = Critic()
        self._generator = Generator(self._critic)
        self.parameters = [self._generator.made, self._critic.weight]
        for parameter, value in zip(self.parameters, two_networks.weights(), strict=True):
            parameter.initialize(ctx=contexts)
            parameter.set_data(mx.nd.array(value))
        for block in (self._critic, self._generator):
            block.hybridize(static_alloc=True, static_shape=True)
        rules = two_networks.RULES
        self.updates = (
            Update("critic", self._critics, [self._critic.weight], rules["critic"], times=two_networks.CRITIC_TIMES),
            Update("generator", self._generators, [self._generator.made], rules["generator"]),
        )

    def _critics(self, batch):
        samples, noise = batch
        made = mx.nd.dot(noise, self._generator.made.data(noise.context))
        return self._critic(samples, mx.nd.BlockGrad(made))

    def _generators(self, batch):
        return self._generator(batch[1])

    def described(self, arrays):
        return two_networks.described(arrays)

    def batches(self, rank):
        return two_networks.batches(self._job, rank, lambda arrays: [mx.nd.array(array) for array in arrays])


def build(job, contexts):
    return Model(job, contexts)
