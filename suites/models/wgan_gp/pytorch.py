"""WGAN-GP in plain PyTorch. Dimensions: N images of a batch, Z numbers of noise, C channels, H height, W width."""

from typing import Any, Sequence, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from suites.assemble.pytorch import build as assembled
from suites.assemble.pytorch.layers import attach
from suites.models.wgan_gp import network
from workers.trainer.base.job import Job, Process
from workers.trainer.base.signatures import Size
from workers.trainer.base.updates import Update


class Network(nn.Module):
    """Both networks. What it gives for noise: images as N, H, W, C, and what the critic says of them."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self._layers = attach(self, network.layers(size))
        self.size = size
        self._made, self._judged = network.generator(size)[1], network.critic(size)[1]

    def forward(self, noise_NZ: Tensor) -> Tuple[Tensor, Tensor]:
        made_NCHW = self.make(noise_NZ)
        return made_NCHW.permute(0, 2, 3, 1), self.judge(made_NCHW)

    def make(self, noise_NZ: Tensor) -> Tensor:
        side = network.least_side(self.size)
        x_NCHW = self.generator.input(noise_NZ).unflatten(1, (-1, side, side))
        for block in self._made:
            x_NCHW = self._block(block, x_NCHW)
        x_NCHW = functional.relu(self.generator.outputn(x_NCHW))
        return torch.tanh(self.generator.output(x_NCHW))

    def judge(self, images_NCHW: Tensor) -> Tensor:
        x_NCHW = self.critic.input(images_NCHW)
        for block in self._judged:
            x_NCHW = self._block(block, x_NCHW)
        return self.critic.output(x_NCHW.flatten(1)).squeeze(1)

    def _block(self, block, x_NCHW):
        norm1, conv1, norm2, conv2, shortcut, resample = (self._layers[one.name] for one in block[1:])
        y_NCHW = functional.relu(norm1(x_NCHW))
        if block.is_up:
            y_NCHW = functional.relu(norm2(conv1(resample(y_NCHW))))
            return shortcut(resample(x_NCHW)) + conv2(y_NCHW)
        y_NCHW = functional.relu(norm2(conv1(y_NCHW)))
        return shortcut(resample(x_NCHW)) + resample(conv2(y_NCHW))


def criterion(outputs: Tuple[Any, Tensor], *unused: Tensor) -> Tensor:
    """The generator's loss."""
    return -outputs[1].mean()


class Model(assembled.Model):
    """With an update of each network. A batch is noise, and for the critic images and by how much they are mixed."""

    @property
    def updates(self) -> Tuple[Update, ...]:
        rules, parts, times = self._optimizer, self.network, self.network.size["critic_updates"]
        critic = Update("critic", self._critic_loss, parts.critic.parameters(), rules["critic"], times)
        return critic, Update("generator", self._generator_loss, parts.generator.parameters(), rules["generator"])

    def loss(self, batch: Sequence[Tensor]) -> Tensor:
        """Return what the critic says of all images that the losses show it: made, real and mixed ones at once."""
        noise_NZ, images_NCHW, mixes_N = batch
        made_NCHW = self.network.make(noise_NZ)
        return self.network.judge(torch.cat([made_NCHW, images_NCHW, _mixed(images_NCHW, made_NCHW, mixes_N)])).mean()

    def _critic_loss(self, batch):
        """Gulrajani et al., 2017, equation 3."""
        noise_NZ, images_NCHW, mixes_N = batch
        with torch.no_grad():
            made_NCHW = self.network.make(noise_NZ)
        mixed_NCHW = _mixed(images_NCHW, made_NCHW, mixes_N).requires_grad_()
        (slopes_NCHW,) = torch.autograd.grad(self.network.judge(mixed_NCHW).sum(), mixed_NCHW, create_graph=True)
        penalty = ((slopes_NCHW.flatten(1).norm(dim=1) - 1.0) ** 2).mean()
        return self.network.judge(made_NCHW).mean() - self.network.judge(images_NCHW).mean() + network.PENALTY * penalty

    def _generator_loss(self, batch):
        return criterion(self.network(batch[0]))


def _mixed(images_NCHW, made_NCHW, mixes_N):
    """Algorithm 1, line 5, with the part of what was made as the source has it."""
    return images_NCHW + mixes_N[:, None, None, None] * (made_NCHW - images_NCHW)


def build(job: Job, process: Process, device: Any) -> Model:
    return assembled.build(job, process, device, Model)
