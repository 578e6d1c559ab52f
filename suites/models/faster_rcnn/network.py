"""Faster R-CNN as data: ResNet-101 up to its fourth stage, what proposes regions from that map, and its fifth stage
over each region, which tells what is there and where.

Source: Ren et al., "Faster R-CNN", 2015, with ResNet-101 as in He et al., "Deep Residual Learning for Image
Recognition", 2015, appendix A: conv1 to conv4 are shared, conv5 is each region's, normalisations are fixed. Regions
become 14 x 14 by RoIAlign (He et al., "Mask R-CNN", 2017), where the paper has a pooling. The ResNet is ``resnet_50``'s
(v1.5); conv1 and conv2 stay as they are, as in MXNet's example, which TBD trains.
"""

import math
from typing import List, NamedTuple, Sequence, Tuple

from suites.assemble import boxes
from suites.assemble.initial import ZERO, normal
from suites.assemble.layers import Convolution, FixedNormalization, Layer, Linear, Pooling
from suites.models.resnet_50 import network as resnet
from workers.trainer.base.signatures import Size

# The side of what a region becomes.
SIDE = 14
# What proposed regions share with each other at most, and what a region shares with a box that it tells.
MOST_OVERLAP, TELLS = 0.7, 0.5
# Where the losses of moves turn from squares to lines, in the first and the second stage: sigma of the paper's code is
# 3 and 1, and this 1 / sigma^2.
TURNS = (1.0 / 9.0, 1.0)


class Parts(NamedTuple):
    """``stem``: convolution, normalisation, pooling; ``shared``: the blocks that make the map; ``first``: a convolution
    over it, and what it tells of each anchor: whether there is an object, and how to move; ``inner``: the blocks over
    each region; ``second``: what they tell: its class, and how to move, for each class."""

    stem: Tuple[Convolution, FixedNormalization, Pooling]
    shared: List[resnet.Block]
    first: Tuple[Convolution, Convolution, Convolution]
    inner: List[resnet.Block]
    second: Tuple[Linear, Linear]


def parts(size: Size) -> Parts:
    """Return the network of a size (a table of ``[sizes]``)."""
    high, wide = (dict(size, image_pixels=side) for side in size["image_pixels"])
    of_image = blocks(high, wide, 1)
    of_regions = blocks(*[dict(size, image_pixels=SIDE * boxes.STRIDE)] * 2, times=size["regions"])
    shared = [block for block in of_image if not block.name.startswith("layer4.")]
    inner = [block for block in of_regions if block.name.startswith("layer4.")]
    channels, features = shared[-1].conv3.outputs, inner[-1].conv3.outputs
    extent, count = shared[-1].conv3.pixels, len(size["anchor_sides"]) * len(boxes.RATIOS)
    first = (
        _convolution("rpn.conv", channels, size["hidden"], 3, extent),
        _convolution("rpn.objects", size["hidden"], 2 * count, 1, extent),
        _convolution("rpn.moves", size["hidden"], 4 * count, 1, extent),
    )
    second = (
        Linear("head.classes", features, size["classes"], normal(0.01), ZERO, size["regions"]),
        Linear("head.moves", features, 4 * size["classes"], normal(0.001), ZERO, size["regions"]),
    )
    return Parts(stem(high, wide), shared, first, inner, second)


def _convolution(name, inputs, outputs, kernel, extent):
    return Convolution(name, inputs, outputs, kernel, extent, normal(0.01), padding=kernel // 2, bias=True)


def stem(high: Size, wide: Size) -> Tuple[Convolution, FixedNormalization, Pooling]:
    """Return what is before the blocks, of images as high as those of one size and as wide as those of the other."""
    convolution, norm, pooling = resnet.stem(high)
    return (*_pair(convolution, norm, resnet.stem(wide)[0], 1, 1.0), pooling)


def blocks(high: Size, wide: Size, times: int) -> List[resnet.Block]:
    """Return the blocks of maps that are as high as those of the size ``high``, ``times`` one below the other, and as
    wide as those of ``wide``."""
    depth = sum(high["blocks"])
    return [_block(one, other, times, depth) for one, other in zip(resnet.blocks(high), resnet.blocks(wide))]


def _block(one, other, times, depth):
    found = _pair(one.conv1, one.bn1, other.conv1, times, 1.0) + _pair(one.conv2, one.bn2, other.conv2, times, 1.0)
    found += _pair(one.conv3, one.bn3, other.conv3, times, 0.5 / depth)
    shortcut = _pair(*one.shortcut, other.shortcut[0], times, 1.0) if one.shortcut else None
    return resnet.Block(one.name, *found, shortcut)


def _pair(convolution, norm, wide, times, part):
    """Return a convolution of such maps, and a normalisation that stays.

    Weights give 2 * inputs / outputs times the mean square of what comes in. Here the norm makes it 2, of which a ReLU
    leaves 1, and of what is added to a shortcut so little that all blocks together add as much as there was: with the
    identity in its place 33 blocks make it larger without end.
    """
    scale = math.sqrt(part * convolution.outputs / float(convolution.inputs))
    extent = (convolution.pixels * times, wide.pixels)
    return convolution._replace(pixels=extent), FixedNormalization(norm.name, norm.channels, scale)


def layers(size: Size) -> List[Layer]:
    """Return all layers of a size, in the order of the forward pass."""
    found = parts(size)
    inner = layers_of(found.inner)
    return list(found.stem) + layers_of(found.shared) + list(found.first) + inner + list(found.second)


def layers_of(blocks: Sequence[resnet.Block]) -> List[Layer]:
    """Return the layers of blocks, in order."""
    return [layer for block in blocks for layer in block[1:-1] + (block.shortcut or ())]
