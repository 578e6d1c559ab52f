"""GoogLeNet as data, with both auxiliary classifiers.

Source of the architecture: Szegedy et al., "Going Deeper with Convolutions", 2014, table 1 and section 5, in the form
of Caffe's bvlc_googlenet: every convolution has a bias and no normalisation but two of responses, and a last window of
a pooling that is partly outside counts. Channels are the paper's divided by a size's ``narrowing``.

Weights begin as Caffe's "xavier", biases with 0.2, those of the three classifiers with zero, as bvlc_googlenet has it.
"""

from typing import List, NamedTuple, Optional

from suites.assemble.initial import ZERO, constant, xavier
from suites.assemble.layers import Convolution, Dropout, Layer, Linear, Pooling, Response
from workers.trainer.base.signatures import Size

# Of each auxiliary loss beside the main one (section 5).
AUXILIARY_WEIGHT = 0.3


class Auxiliary(NamedTuple):
    """A classifier of the maps between two modules."""

    name: str
    pool: Pooling
    conv: Convolution
    fc: Linear
    drop: Dropout
    classifier: Linear


class Inception(NamedTuple):
    """A module. The four branches are conv1x1, conv3x3 of reduce3x3, conv5x5 of reduce5x5 and project of pool, and
    their channels follow each other in this order. ``after``: a pooling of what they give."""

    name: str
    conv1x1: Convolution
    reduce3x3: Convolution
    conv3x3: Convolution
    reduce5x5: Convolution
    conv5x5: Convolution
    pool: Pooling
    project: Convolution
    after: Optional[Pooling]
    auxiliary: Optional[Auxiliary]


# Channels of conv1x1, reduce3x3, conv3x3, reduce5x5, conv5x5 and project (table 1).
_CHANNELS = (
    ("inception_3a", (64, 96, 128, 16, 32, 32)),
    ("inception_3b", (128, 128, 192, 32, 96, 64)),
    ("inception_4a", (192, 96, 208, 16, 48, 64)),
    ("inception_4b", (160, 112, 224, 24, 64, 64)),
    ("inception_4c", (128, 128, 256, 24, 64, 64)),
    ("inception_4d", (112, 144, 288, 32, 64, 64)),
    ("inception_4e", (256, 160, 320, 32, 128, 128)),
    ("inception_5a", (256, 160, 320, 32, 128, 128)),
    ("inception_5b", (384, 192, 384, 48, 128, 128)),
)
_POOLED = {"inception_3b": "pool3", "inception_4e": "pool4"}
_AUXILIARIES = {"inception_4a": "auxiliary1", "inception_4d": "auxiliary2"}
_BIAS = constant(0.2)


def stem(size: Size) -> List[Layer]:
    """Return the layers before the first module of a size (a table of ``[sizes]``), in order."""
    width, pixels = 64 // size["narrowing"], (size["image_pixels"] + 1) // 2
    conv1, pool1, pool2 = _convolution("conv1", 3, width, 7, pixels, stride=2), _halving("pool1"), _halving("pool2")
    pixels = pool1.pixels(pixels)
    reduce2 = _convolution("reduce2", width, width, 1, pixels)
    conv2 = _convolution("conv2", width, 3 * width, 3, pixels)
    return [conv1, pool1, _response("norm1"), reduce2, conv2, _response("norm2"), pool2]


def modules(size: Size) -> List[Inception]:
    """Return the ``Inception`` modules of a size, in order."""
    conv2, _, pool2 = stem(size)[-3:]
    found, inputs, pixels = [], conv2.outputs, pool2.pixels(conv2.pixels)
    for name, channels in _CHANNELS:
        module = _module(name, inputs, [one // size["narrowing"] for one in channels], pixels, size)
        found.append(module)
        inputs, pixels = outputs(module), module.after.pixels(pixels) if module.after else pixels
    return found


def outputs(module: Inception) -> int:
    """Return the channels of what a module gives."""
    return sum(one.outputs for one in (module.conv1x1, module.conv3x3, module.conv5x5, module.project))


def _module(name, inputs, channels, pixels, size):
    one, narrow3, three, narrow5, five, project = channels
    module = Inception(
        name,
        _convolution(name + ".conv1x1", inputs, one, 1, pixels),
        _convolution(name + ".reduce3x3", inputs, narrow3, 1, pixels),
        _convolution(name + ".conv3x3", narrow3, three, 3, pixels),
        _convolution(name + ".reduce5x5", inputs, narrow5, 1, pixels),
        _convolution(name + ".conv5x5", narrow5, five, 5, pixels),
        Pooling(name + ".pool", 3, 1, padding=1),
        _convolution(name + ".project", inputs, project, 1, pixels),
        _halving(_POOLED[name]) if name in _POOLED else None,
        None,
    )
    if name not in _AUXILIARIES:
        return module
    return module._replace(auxiliary=_auxiliary(_AUXILIARIES[name], outputs(module), pixels, size))


def _auxiliary(name, inputs, pixels, size):
    """Section 5: windows of 5 x 5, a convolution of 128 channels, a layer of 1024 and dropout before the classes."""
    pool = Pooling(name + ".pool", 5, 3, average=True)
    channels, hidden, after = 128 // size["narrowing"], 1024 // size["narrowing"], pool.pixels(pixels)
    features = channels * after**2
    return Auxiliary(
        name,
        pool,
        _convolution(name + ".conv", inputs, channels, 1, after),
        Linear(name + ".fc", features, hidden, xavier(features), _BIAS),
        Dropout(name + ".drop", size["auxiliary_dropout"]),
        Linear(name + ".classifier", hidden, size["classes"], xavier(hidden), ZERO),
    )


def head(size: Size) -> List[Layer]:
    """Return the mean over the last maps, what drops parts of it, and the main classifier."""
    last = modules(size)[-1]
    features = outputs(last)
    classifier = Linear("classifier", features, size["classes"], xavier(features), ZERO)
    return [Pooling("pool5", last.project.pixels, 1, average=True), Dropout("drop", size["dropout"]), classifier]


def layers(size: Size) -> List[Layer]:
    """Return all layers of a size, in the order of the forward pass."""
    found = stem(size)
    for module in modules(size):
        found += module[1:8]
        found += module.auxiliary[1:] if module.auxiliary else ()
        found += [module.after] if module.after else []
    return found + head(size)


def _convolution(name, inputs, channels, kernel, pixels, stride=1):
    described = (name, inputs, channels, kernel, pixels, xavier(inputs, kernel))
    return Convolution(*described, stride=stride, padding=kernel // 2, bias=True, initial_bias=_BIAS)


def _halving(name):
    return Pooling(name, 3, 2, ceil=True)


def _response(name):
    return Response(name, size=5, alpha=1e-4, beta=0.75, k=1.0)
