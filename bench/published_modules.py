"""Networks put together of PyTorch's own modules, as one would without tbd, with the weights of the suite's."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from workers.trainer.base.job import Job


class DeepSpeech2(nn.Module):
    """Sequences are packed, so that bidirectional layers read both ways of each, and normalisations see no padding."""

    def __init__(self, size: Any) -> None:
        super().__init__()
        channels, hidden, count = size["channels"], size["hidden"], size["recurrent_layers"]
        first = nn.Conv2d(1, channels, (41, 11), (2, 2), (20, 5), bias=False)
        second = nn.Conv2d(channels, channels, (21, 11), (2, 1), (10, 5), bias=False)
        self.convolutions = nn.ModuleList([first, second])
        self.map_norms = nn.ModuleList([nn.BatchNorm1d(channels) for _ in self.convolutions])
        made = {"rnn": nn.RNN, "gru": nn.GRU}[size["cell"]]
        inputs = [channels * -(-size["frequencies"] // 4)] + [hidden] * (count - 1)
        self.recurrent = nn.ModuleList([made(one, hidden, batch_first=True, bidirectional=True) for one in inputs])
        self.norms = nn.ModuleList([nn.BatchNorm1d(hidden) for _ in inputs])
        self.output = nn.Linear(hidden, size["symbols"], bias=False)

    def forward(self, spectrograms_NFT: Tensor, mask_NT: Tensor) -> Tensor:
        x_NCHP, mask_NP = spectrograms_NFT.unsqueeze(1), mask_NT
        for convolution, norm, stride in zip(self.convolutions, self.map_norms, (2, 1), strict=True):
            mask_NP, x_NHPC = mask_NP[:, ::stride], convolution(x_NCHP).permute(0, 2, 3, 1)
            within_NHP = mask_NP.bool().unsqueeze(1).expand(x_NHPC.shape[:3])
            found_NHPC = torch.zeros_like(x_NHPC)
            found_NHPC[within_NHP] = functional.hardtanh(norm(x_NHPC[within_NHP]), 0.0, 20.0)
            x_NCHP = found_NHPC.permute(0, 3, 1, 2)
        lengths_N = mask_NP.sum(dim=1).long()
        x_NPE = x_NCHP.flatten(1, 2).transpose(1, 2)
        packed = pack_padded_sequence(x_NPE, lengths_N, batch_first=True, enforce_sorted=False)
        for recurrent, norm in zip(self.recurrent, self.norms, strict=True):
            both, _ = recurrent(packed)
            packed = both._replace(data=norm(both.data.unflatten(1, (2, -1)).sum(dim=1)))
        return self.output(pad_packed_sequence(packed, batch_first=True, total_length=mask_NP.shape[1])[0])


class Block(nn.Module):
    """A residual block of WGAN-GP: one of the generator's doubles the side, one of the critic's halves it."""

    def __init__(self, inputs: int, outputs: int, up: bool) -> None:
        super().__init__()
        inner = outputs if up else inputs
        norms = [nn.BatchNorm2d(inputs), nn.BatchNorm2d(inner)]
        if not up:
            norms = [nn.GroupNorm(1, inputs), nn.GroupNorm(1, inner)]
        conv1 = nn.Conv2d(inputs, inner, 3, padding=1, bias=False)
        conv2 = nn.Conv2d(inner, outputs, 3, padding=1)
        up_first, down_last = (nn.Upsample(scale_factor=2), nn.Identity()) if up else (nn.Identity(), nn.AvgPool2d(2))
        self.way = nn.Sequential(norms[0], nn.ReLU(), up_first, conv1, norms[1], nn.ReLU(), conv2, down_last)
        self.beside = nn.Sequential(
            nn.Upsample(scale_factor=2) if up else nn.AvgPool2d(2), nn.Conv2d(inputs, outputs, 1)
        )

    def forward(self, x_NCHW: Tensor) -> Tensor:
        return self.beside(x_NCHW) + self.way(x_NCHW)


class WganGp(nn.Module):
    """Both networks, as sequences of modules."""

    def __init__(self, size: Any) -> None:
        super().__init__()
        self.size, width, side = size, size["width"], size["image_pixels"] // 16
        made, judged = ([width * times for times in part] for part in ((8, 8, 4, 2, 1), (1, 2, 4, 8, 8)))
        self.generator = nn.Sequential(
            nn.Linear(size["noise"], made[0] * side**2),
            nn.Unflatten(1, (made[0], side, side)),
            *(Block(*pair, up=True) for pair in pairwise(made)),
            *(nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, 3, 3, padding=1), nn.Tanh()),
        )
        self.critic = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1),
            *(Block(*pair, up=False) for pair in pairwise(judged)),
            *(nn.Flatten(), nn.Linear(judged[-1] * side**2, 1)),
        )

    def make(self, noise_NZ: Tensor) -> Tensor:
        return self.generator(noise_NZ)

    def judge(self, images_NCHW: Tensor) -> Tensor:
        return self.critic(images_NCHW).squeeze(1)

    def forward(self, noise_NZ: Tensor) -> tuple[Tensor, Tensor]:
        made_NCHW = self.make(noise_NZ)
        return made_NCHW.permute(0, 2, 3, 1), self.judge(made_NCHW)


def make(name: str, ours: nn.Module, job: Job) -> tuple[nn.Module, Callable[..., Any]]:
    """Return the network ``name`` with the weights of ``ours``, twice: as a module, and as what computes by it what
    ``ours`` computes.

    Raises:
        RuntimeError: it has other parameters.
    """
    found = {"DeepSpeech2": DeepSpeech2, "WganGp": WganGp}[name](job.model.size)
    ordered = _ordered(found) if isinstance(found, DeepSpeech2) else [found]
    theirs = [one for part in ordered for one in part.parameters()]
    mine = list(ours.parameters())
    if [one.shape for one in theirs] != [one.shape for one in mine]:
        raise RuntimeError(f"{name} has other parameters")
    with torch.no_grad():
        for own, given in zip(theirs, mine, strict=True):
            own.copy_(given)
    return found, found


def _ordered(network):
    """Return its modules in the order of the suite's: that of a bidirectional layer has one direction after the other,
    as the suite's."""
    parts = [one for pair in zip(network.convolutions, network.map_norms, strict=True) for one in pair]
    parts += [one for pair in zip(network.recurrent, network.norms, strict=True) for one in pair]
    return [*parts, network.output]
