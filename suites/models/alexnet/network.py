"""AlexNet as data: its second form, one tower without groups and without response normalisation.

Source of the architecture: Krizhevsky, "One weird trick for parallelizing convolutional neural networks", 2014, with
the channels, the padding and the count of torchvision's ``alexnet``. The first form (Krizhevsky et al., 2012) has two
towers, wider convolutions and response normalisation.

Weights begin as Caffe's "xavier", biases as zeros. With torchvision's, a third of that variance, little reaches the
last layer: the loss of the first 45 steps of the size small falls by a hundredth only.
"""

from typing import List

from suites.assemble.initial import ZERO, xavier
from suites.assemble.layers import Convolution, Dropout, Layer, Linear, Pooling
from workers.trainer.base.signatures import Size

# Kernel, stride and padding of each convolution, and whether a pooling follows it.
_CONVOLUTIONS = ((11, 4, 2, True), (5, 1, 2, True), (3, 1, 1, False), (3, 1, 1, False), (3, 1, 1, True))


def layers(size: Size) -> List[Layer]:
    """Return all layers of a size (a table of ``[sizes]``), in the order of the forward pass."""
    found, inputs, pixels = [], 3, size["image_pixels"]
    for number, (outputs, shape) in enumerate(zip(size["channels"], _CONVOLUTIONS), 1):
        kernel, stride, padding, pooled = shape
        pixels = (pixels + 2 * padding - kernel) // stride + 1
        described = (inputs, outputs, kernel, pixels, xavier(inputs, kernel))
        found.append(Convolution("conv%d" % number, *described, stride=stride, padding=padding, bias=True))
        if pooled:
            # Windows that overlap: Krizhevsky et al., 2012, section 3.4.
            found.append(Pooling("pool%d" % number, 3, 2))
            pixels = found[-1].pixels(pixels)
        inputs = outputs
    return found + _classifier(inputs * pixels**2, size)


def _classifier(features, size):
    hidden, rate = size["hidden"], size["dropout"]
    return [
        Dropout("drop6", rate),
        Linear("fc6", features, hidden, xavier(features), ZERO),
        Dropout("drop7", rate),
        Linear("fc7", hidden, hidden, xavier(hidden), ZERO),
        Linear("fc8", hidden, size["classes"], xavier(hidden), ZERO),
    ]
