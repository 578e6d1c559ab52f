"""Mask R-CNN as data: ResNet-50, a pyramid of maps over its stages, what proposes regions from each map, and over each
region what tells what is there, where, and which of its places belong to it.

Source: He et al., "Mask R-CNN", 2017, section 3 and figure 4 (right), with the pyramid of Lin et al., "Feature Pyramid
Networks for Object Detection", 2017, sections 3 and 4. The ResNet is ``resnet_50``'s (v1.5), with ``faster_rcnn``'s
fixed normalisations; conv1 and conv2 stay as they are. What the papers leave open is as in torchvision's
maskrcnn_resnet50_fpn: one score of each anchor, 91 classes, where losses of moves turn, what most weights begin with.
"""

from typing import List, NamedTuple, Tuple

from suites.assemble import boxes
from suites.assemble.initial import ZERO, normal, over_inputs, over_outputs, xavier
from suites.assemble.layers import (
    Convolution,
    FixedNormalization,
    Layer,
    Linear,
    Pooling,
    TransposedConvolution,
    Upsampling,
)
from suites.models.faster_rcnn import network as faster
from suites.models.resnet_50 import network as resnet
from workers.trainer.base.signatures import Size

# The side of what a region becomes: for its class and its move, and for its mask, which has twice that side.
SIDE, MASK_SIDE = 7, 14
MOST_OVERLAP = faster.MOST_OVERLAP
# Where the losses of moves turn from squares to lines, in the first and the second stage.
TURNS = (1.0 / 9.0, 1.0 / 9.0)
# One region of so many has a box at most, and a mask (Girshick, "Fast R-CNN", 2015, section 2.3).
MASKED = 4


class Parts(NamedTuple):
    """``stem``, ``body``: of the ResNet; ``inner``: over the last map of each stage, ``outer``: over what these become
    together; ``first``: what proposes, over each map; ``second``: what tells class and move; ``masks``: the mask."""

    stem: Tuple[Convolution, FixedNormalization, Pooling]
    body: List[resnet.Block]
    inner: List[Convolution]
    outer: List[Convolution]
    first: Tuple[Convolution, Convolution, Convolution]
    second: Tuple[Linear, Linear, Linear, Linear]
    masks: List[Layer]


def parts(size: Size) -> Parts:
    """Return the network of a size (a table of ``[sizes]``)."""
    high, wide = (dict(size, image_pixels=side) for side in size["image_pixels"])
    body, channels = faster.blocks(high, wide, 1), size["channels"]
    ends = [one.conv3 for one, after in zip(body, body[1:] + [None]) if after is None or one.name[:6] != after.name[:6]]
    inner = [_pyramid("fpn.inner.%d" % at, one.outputs, channels, 1, one.pixels) for at, one in enumerate(ends)]
    outer = [_pyramid("fpn.outer.%d" % at, channels, channels, 3, one.pixels) for at, one in enumerate(ends)]
    extents = boxes.pyramid(size["image_pixels"], len(size["anchor_sides"]))
    places = (sum(height * width for height, width in extents), 1)
    first = (
        Convolution("rpn.conv", channels, channels, 3, places, normal(0.01), padding=1, bias=True),
        Convolution("rpn.objects", channels, len(boxes.RATIOS), 1, places, normal(0.01), bias=True),
        Convolution("rpn.moves", channels, 4 * len(boxes.RATIOS), 1, places, normal(0.01), bias=True),
    )
    return Parts(faster.stem(high, wide), body, inner, outer, first, _second(size), _masks(size))


def _pyramid(name, inputs, outputs, kernel, extent):
    return Convolution(name, inputs, outputs, kernel, extent, xavier(inputs, kernel), padding=kernel // 2, bias=True)


def _second(size):
    inputs, hidden, regions = size["channels"] * SIDE**2, size["hidden"], size["regions"]
    return (
        Linear("box.fc6", inputs, hidden, over_inputs(inputs), over_inputs(inputs), regions),
        Linear("box.fc7", hidden, hidden, over_inputs(hidden), over_inputs(hidden), regions),
        Linear("box.classes", hidden, size["classes"], normal(0.01), ZERO, regions),
        Linear("box.moves", hidden, 4 * size["classes"], normal(0.001), ZERO, regions),
    )


def _masks(size):
    """Return the layers over regions that are one below the other."""
    channels, count = size["channels"], size["regions"] // MASKED
    extent, initial = (count * MASK_SIDE, MASK_SIDE), over_outputs(channels, 3)
    four = Convolution("mask.conv", channels, channels, 3, extent, initial, padding=1, bias=True)
    found = [four._replace(name="mask.conv%d" % number) for number in range(1, 5)]  # type: List[Layer]
    found.append(TransposedConvolution("mask.up", channels, channels, 2, extent, over_outputs(channels, 2)))
    extent = (count * 2 * MASK_SIDE, 2 * MASK_SIDE)
    return found + [Convolution("mask.told", channels, size["classes"], 1, extent, normal(0.01), bias=True)]


def layers(size: Size) -> List[Layer]:
    """Return all layers of a size, in the order of the forward pass."""
    found = parts(size)
    body = list(found.stem) + faster.layers_of(found.body)
    return body + found.inner + found.outer + [Upsampling("fpn.up")] + list(found.first + found.second) + found.masks
