"""A3C as A2C of stable-baselines3 (https://pypi.org/project/stable-baselines3) trains it, from the suite's weights.

All of it is theirs but the games: the loop, its buffer, policy, loss and returns; the convolutions are given it as one
gives it convolutions of one's own. The optimiser is the suite's. It limits the gradients' norm in any case: to nothing.
What is drawn by chance differs, but in the first update, whose loss is that of the suite's.
"""

import math
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy
import torch
from gymnasium import spaces
from stable_baselines3 import A2C
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import DummyVecEnv
from torch import nn

from suites.datasets import games
from suites.inputs.games import DISCOUNT, drawn
from suites.models.a3c import network
from workers.trainer.base.job import Job
from workers.trainer.frameworks.pytorch import optimizers

# Of its loss, as it tells them.
PARTS = ("policy", "entropy", "value")


class Game(gymnasium.Env):
    """A game of the suite; what is seen of it are its last images, as the suite's ``Views``."""

    def __init__(self, game: Any, size: Any) -> None:
        self._game = game
        self._seen = numpy.zeros((size["images"], size["image_pixels"], size["image_pixels"]), numpy.uint8)
        self.observation_space = spaces.Box(0, 255, self._seen.shape, numpy.uint8)
        self.action_space = spaces.Discrete(size["actions"])

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self._seen[:] = self._game.begin()
        return self._seen, {}

    def step(self, action: Any) -> Any:
        image, reward, over = self._game.step(int(action))
        self._seen[:-1] = self._seen[1:]
        self._seen[-1] = image
        return self._seen, float(numpy.sign(reward)), over, False, {}


class Features(BaseFeaturesExtractor):
    """What is before the two heads."""

    def __init__(self, space: spaces.Box, size: Any) -> None:
        super().__init__(space, size["hidden"])
        parts, inputs, pixels = list[nn.Module](), size["images"], size["image_pixels"]
        for outputs, (kernel, stride) in zip(size["channels"], network.KERNELS, strict=True):
            parts += [nn.Conv2d(inputs, outputs, kernel, stride), nn.ReLU()]
            inputs, pixels = outputs, (pixels - kernel) // stride + 1
        self.parts = nn.Sequential(*parts, nn.Flatten(), nn.Linear(inputs * pixels**2, size["hidden"]), nn.ReLU())

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.parts(images)


def loop(name: str, ours: Any, job: Job) -> tuple[float, Callable[[int], list[float]]]:
    """Train a first update; return its loss, and what trains so many more and returns the loss of the last alone.

    Raises:
        RuntimeError: it has other parameters.
    """
    size, count, seed = job.model.size, job.plan.per_device_batch_size, job.plan.seed
    opener = games.opener(job.dataset.root, size["image_pixels"], size["actions"])
    seeds = [(seed * 1000003 + number) % 2**31 for number in range(count)]
    (update,) = ours.updates
    facts = {"features_extractor_class": Features, "features_extractor_kwargs": {"size": size}, "net_arch": []}
    found = A2C(
        "CnnPolicy",
        DummyVecEnv([lambda one=one: Game(opener(one), size) for one in seeds]),
        learning_rate=update.optimizer["learning_rate"],
        n_steps=size["steps"],
        gamma=DISCOUNT,
        ent_coef=network.ENTROPY,
        vf_coef=network.VALUE,
        max_grad_norm=math.inf,
        policy_kwargs=facts,
        device="cpu",
    )
    theirs, mine = list(found.policy.parameters()), list(ours.network.parameters())
    if [one.shape for one in theirs] != [one.shape for one in mine]:
        raise RuntimeError(f"{name} of stable-baselines3 has other parameters")
    with torch.no_grad():
        for own, given in zip(theirs, mine, strict=True):
            own.copy_(given)
    found.policy.optimizer = optimizers.make(update.optimizer, theirs)

    def train(steps: int) -> list[float]:
        found.learn(steps * count * size["steps"], log_interval=None, reset_num_timesteps=False)
        policy, entropy, value = (found.logger.name_to_value[f"train/{part}_loss"] for part in PARTS)
        return [policy + network.ENTROPY * entropy + network.VALUE * value]

    own, generator = found.policy.action_dist, numpy.random.RandomState((seed, 0))
    own.sample = lambda: torch.from_numpy(drawn(generator, own.distribution.logits.numpy()))
    (first,) = train(1)
    del own.sample
    return first, train
