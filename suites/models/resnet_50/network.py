"""ResNet-50 v1.5 as data. Names are those of torchvision's ``resnet50``.

Source of the architecture: He et al., "Deep Residual Learning for Image Recognition", 2015, table 1, with the stride of
a block in its 3 x 3 convolution (v1.5: https://catalog.ngc.nvidia.com/orgs/nvidia/resources/resnet_50_v1_5_for_pytorch).
Weights begin as torchvision's.
"""

from typing import List, NamedTuple, Optional, Tuple

from suites.assemble.initial import over_inputs, over_outputs
from suites.assemble.layers import Convolution, Layer, Linear, Normalization, Pooling
from workers.trainer.base.signatures import Size

# A block gives four times the channels of its inner convolutions (He et al., figure 5).
EXPANSION = 4


class Block(NamedTuple):
    """The layers of a bottleneck: 1 x 1 narrows, 3 x 3 (with the stride) works, 1 x 1 widens, each with its
    normalisation. ``shortcut``: where the input has another shape than the output, else None."""

    name: str
    conv1: Convolution
    bn1: Normalization
    conv2: Convolution
    bn2: Normalization
    conv3: Convolution
    bn3: Normalization
    shortcut: Optional[Tuple[Convolution, Normalization]]


def stem(size: Size) -> Tuple[Convolution, Normalization, Pooling]:
    """Return (convolution, normalisation, pooling) before the first block."""
    pixels = _halved(size["image_pixels"])
    return _pair("conv1", "bn1", 3, size["width"], 7, 2, pixels) + (Pooling("maxpool", 3, 2, padding=1),)


def blocks(size: Size) -> List[Block]:
    """Return the ``Block`` of a size (a table of ``[sizes]``), in order."""
    found = []
    inputs, pixels = size["width"], _halved(_halved(size["image_pixels"]))
    for stage, depth in enumerate(size["blocks"]):
        width = size["width"] * 2**stage
        for place in range(depth):
            stride = 2 if stage > 0 and place == 0 else 1
            found.append(_block("layer%d.%d" % (stage + 1, place), inputs, width, stride, pixels))
            inputs, pixels = width * EXPANSION, found[-1].conv2.pixels
    return found


def _block(name, inputs, width, stride, pixels):
    outputs, after = width * EXPANSION, _halved(pixels) if stride == 2 else pixels
    layers = _pair(name + ".conv1", name + ".bn1", inputs, width, 1, 1, pixels)
    layers += _pair(name + ".conv2", name + ".bn2", width, width, 3, stride, after)
    layers += _pair(name + ".conv3", name + ".bn3", width, outputs, 1, 1, after)
    shortcut = None
    if stride == 2 or inputs != outputs:
        shortcut = _pair(name + ".downsample.0", name + ".downsample.1", inputs, outputs, 1, stride, after)
    return Block(name, *(layers + (shortcut,)))


def _pair(name, norm, inputs, outputs, kernel, stride, pixels):
    """Return a convolution without bias, whose output has the input's side divided by the stride, and what follows."""
    initial = over_outputs(outputs, kernel)
    convolution = Convolution(name, inputs, outputs, kernel, pixels, initial, stride=stride, padding=kernel // 2)
    return convolution, Normalization(norm, outputs, pixels)


def _halved(pixels):
    """Side of the output of stride 2 with "same" symmetric padding."""
    return (pixels + 1) // 2


def classifier(size: Size) -> Linear:
    """Return the fully connected layer."""
    features = size["width"] * 2 ** (len(size["blocks"]) - 1) * EXPANSION
    return Linear("fc", features, size["classes"], over_inputs(features), over_inputs(features))


def layers(size: Size) -> List[Layer]:
    """Return all layers of a size, in the order of the forward pass."""
    found = list(stem(size))
    for block in blocks(size):
        found += list(block[1:-1]) + list(block.shortcut or ())
    return found + [classifier(size)]
