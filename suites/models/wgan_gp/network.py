"""WGAN-GP as data: a generator that makes images of noise, and a critic that judges images, of residual blocks.

Source: Gulrajani et al., "Improved Training of Wasserstein GANs", 2017, by its code, github.com/igul222/
improved_wgan_training, gan_64x64.py: GoodGenerator and GoodDiscriminator; initial weights as in its tflib/ops.
"""

import math
from typing import List, NamedTuple, Tuple, Union

from suites.assemble.initial import ZERO, glorot, uniform
from suites.assemble.layers import Convolution, Layer, Linear, MapNormalization, Normalization, Pooling, Upsampling
from suites.assemble.layers import flops as operations_of
from workers.trainer.base.signatures import Size

# Of the width: channels before the generator's first block and after each, and of the critic's.
MADE, JUDGED = (8, 8, 4, 2, 1), (1, 2, 4, 8, 8)
# What the gradient penalty counts: the paper's lambda.
PENALTY = 10.0


class Block(NamedTuple):
    """norm1, ReLU, conv1, norm2, ReLU, conv2, and ``shortcut`` beside them. ``resample`` doubles the side of what conv1
    and the shortcut are given (the generator's), or halves that of what conv2 gives and the shortcut is given."""

    name: str
    norm1: Union[Normalization, MapNormalization]
    conv1: Convolution
    norm2: Union[Normalization, MapNormalization]
    conv2: Convolution
    shortcut: Convolution
    resample: Union[Upsampling, Pooling]

    @property
    def is_up(self) -> bool:
        return isinstance(self.resample, Upsampling)


def least_side(size: Size) -> int:
    """Return the side of the generator's first map, and of the critic's last."""
    return int(size["image_pixels"]) // 2 ** (len(MADE) - 1)


def generator(size: Size) -> Tuple[Linear, List[Block], Normalization, Convolution]:
    """Return the generator of a size (a table of ``[sizes]``): what takes the noise, the blocks, what follows them."""
    width, pixels, numbers = size["width"], size["image_pixels"], MADE[0] * size["width"] * least_side(size) ** 2
    first = Linear("generator.input", size["noise"], numbers, glorot(size["noise"], numbers), ZERO)
    blocks = _blocks("generator", [width * times for times in MADE], least_side(size), True)
    norm, last = Normalization("generator.outputn", width, pixels), _convolution("generator.output", width, 3, pixels)
    return first, blocks, norm, last


def critic(size: Size) -> Tuple[Convolution, List[Block], Linear]:
    """Return the critic of a size: what takes the images, the blocks, what follows them."""
    width, pixels, numbers = size["width"], size["image_pixels"], JUDGED[-1] * size["width"] * least_side(size) ** 2
    first = Convolution("critic.input", 3, width, 3, pixels, glorot(9 * 3, 9 * width), padding=1, bias=True)
    blocks = _blocks("critic", [width * times for times in JUDGED], pixels, False)
    return first, blocks, Linear("critic.output", numbers, 1, glorot(numbers, 1), ZERO)


def _blocks(part, channels, side, up):
    found = []
    for number, (inputs, outputs) in enumerate(zip(channels, channels[1:]), start=1):
        name, other = "%s.res%d" % (part, number), 2 * side if up else side // 2
        inner, within = (outputs, other) if up else (inputs, side)
        norms = [MapNormalization(name + ".norm1", inputs), MapNormalization(name + ".norm2", inner)]
        if up:
            norms = [Normalization(one.name, one.channels, at) for one, at in zip(norms, (side, within))]
        conv1 = _convolution(name + ".conv1", inputs, inner, within, bias=False)
        conv2 = _convolution(name + ".conv2", inner, outputs, within)
        shortcut = Convolution(name + ".shortcut", inputs, outputs, 1, other, glorot(inputs, outputs), bias=True)
        resample = Upsampling(name + ".up") if up else Pooling(name + ".down", 2, 2, average=True)
        found.append(Block(name, norms[0], conv1, norms[1], conv2, shortcut, resample))
        side = other
    return found


def _convolution(name, inputs, outputs, pixels, bias=True):
    """3 x 3, with the source's "he_init": uniform, variance 4 / (9 x (inputs + outputs))."""
    initial = uniform(math.sqrt(12.0 / (9 * (inputs + outputs))))
    return Convolution(name, inputs, outputs, 3, pixels, initial, padding=1, bias=bias)


def _layers(first, blocks, *rest):
    return [first] + [layer for block in blocks for layer in block[1:]] + list(rest)


def layers(size: Size) -> List[Layer]:
    """Return all layers of both, in the order of the forward pass."""
    return _layers(*generator(size)) + _layers(*critic(size))


def step_operations(size: Size) -> int:
    """Return the operations of a step for each sample of a batch: of ``critic_updates``, and one of the generator.
    An update of the critic: the generator's forward pass; the critic's over real, made and mixed images; the gradient
    of mixed images. Then the backward pass: over real and made images, without their own gradients; through that
    gradient, by each layer's weights and by what it was given; and through the forward pass of mixed images, which the
    gradient depends on up to the last normalisation: what stands ``behind`` it has no part.

    One of the generator: both forward, back through all of the critic but for its weights, and through the generator.
    """
    made, judged = generator(size), critic(size)
    g, c = operations_of(_layers(*made)), operations_of(_layers(*judged))
    first, last = judged[0].flops(), judged[-1].flops()
    behind = judged[1][-1].conv2.flops() + judged[1][-1].shortcut.flops() + last
    of_critic = (g + 3 * c + c) + 2 * (2 * c - first) + (2 * c - last) + (2 * (c - behind) - first)
    return int(size["critic_updates"] * of_critic + 3 * g - made[0].flops() + 2 * c)
