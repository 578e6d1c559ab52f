"""A3C in plain PyTorch. Dimensions: N agent steps of a batch, C images, H height, W width, F features, A actions."""

from typing import Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from suites.assemble.pytorch.layers import attach, single
from suites.models.a3c import network
from workers.trainer.base.signatures import Size


class Network(nn.Module):
    """What it gives for the images of a game: the logits of its actions, and what the state is worth."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        attach(self, network.layers(size))

    def forward(self, images_NCHW: Tensor) -> Tuple[Tensor, Tensor]:
        x_NCHW = functional.relu(self.conv1(images_NCHW))
        x_NCHW = functional.relu(self.conv2(x_NCHW))
        x_NF = functional.relu(self.fc(x_NCHW.flatten(1)))
        return self.policy(x_NF), self.value(x_NF).squeeze(1)


def criterion(outputs: Tuple[Tensor, Tensor], actions_N: Tensor, returns_N: Tensor) -> Tensor:
    """Mnih et al., 2016, section 4: through the advantage no gradient flows."""
    logits_NA, values_N = map(single, outputs)
    errors_N = returns_N - values_N
    logarithms_NA = functional.log_softmax(logits_NA, dim=1)
    taken_N = logarithms_NA.gather(1, actions_N[:, None]).squeeze(1)
    entropies_N = -(logarithms_NA.exp() * logarithms_NA).sum(dim=1)
    losses_N = -taken_N * errors_N.detach() - network.ENTROPY * entropies_N + network.VALUE * errors_N**2
    return torch.mean(losses_N)
