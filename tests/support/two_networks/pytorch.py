"""The two networks in PyTorch; the gradient penalty by a second backward pass."""

import torch

from tests.support import two_networks
from workers.trainer.base.updates import Update


class Networks(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = torch.nn.Linear(two_networks.NOISE, two_networks.FEATURES, bias=False)
        self.critic = torch.nn.Linear(two_networks.FEATURES, 1, bias=False)
        with torch.no_grad():
            for layer, value in zip((self.generator, self.critic), two_networks.weights(), strict=True):
                layer.weight.copy_(torch.from_numpy(value).T)


class Model:
    def __init__(self, job):
        self._job = job
        self.network = Networks()
        rules, parts = two_networks.RULES, self.network
        self.updates = (
            Update("critic", self._critic, parts.critic.parameters(), rules["critic"], times=two_networks.CRITIC_TIMES),
            Update("generator", self._generator, parts.generator.parameters(), rules["generator"]),
        )

    def _critic(self, batch):
        samples, noise = batch
        made = self.network.generator(noise).detach()
        between = ((samples + made) / 2.0).requires_grad_()
        (slope,) = torch.autograd.grad(self.network.critic(between).sum(), between, create_graph=True)
        penalty = ((slope.norm(dim=1) - 1.0) ** 2).mean()
        told = self.network.critic(made).mean() - self.network.critic(samples).mean()
        return told + two_networks.PENALTY * penalty

    def _generator(self, batch):
        _, noise = batch
        return -self.network.critic(self.network.generator(noise)).mean()

    def described(self, arrays):
        return two_networks.described(arrays)

    def batches(self, rank):
        return two_networks.batches(self._job, rank, lambda arrays: [torch.from_numpy(array) for array in arrays])


def build(job, process, device):
    return Model(job)
