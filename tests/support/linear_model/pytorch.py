"""The linear fit in PyTorch."""

import itertools

import torch

from tests.support import linear_model


class Model:
    def __init__(self, job):
        self._job = job
        self.optimizer = job["model"].get("rule", linear_model.OPTIMIZER)
        self.network = torch.nn.Linear(linear_model.FEATURES, 1, bias=False)
        with torch.no_grad():
            self.network.weight.copy_(torch.from_numpy(linear_model.weights()).T)

    def batches(self, rank):
        batch = [torch.from_numpy(array) for array in linear_model.samples(self._job, rank)]
        return itertools.repeat((batch, {"images": len(batch[0])}))

    def loss(self, batch):
        inputs, targets = batch
        return torch.nn.functional.mse_loss(self.network(inputs), targets)


def build(job, process, device):
    return Model(job)
