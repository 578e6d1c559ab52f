"""ResNet-50 v1.5 as data: its layers, their counts of parameters and operations, and its initial weights.

Every framework's implementation takes its sizes and its initial weights from here, so that equal seeds are equal
networks. Names are those of torchvision's ``resnet50``; layouts are OIHW (outputs, inputs, height, width).

Source of the architecture: He et al., "Deep Residual Learning for Image Recognition", 2015, table 1, with the stride of
a block in its 3 x 3 convolution (v1.5: https://catalog.ngc.nvidia.com/orgs/nvidia/resources/resnet_50_v1_5_for_pytorch).
"""

import collections
import math

# A block gives four times the channels of its inner convolutions (He et al., figure 5).
EXPANSION = 4

# ``pixels``: side of the output. ``norm``: name of the batch normalisation that follows.
Convolution = collections.namedtuple("Convolution", "name norm inputs outputs kernel stride pixels")


def blocks(size):
    """Yield (name, inputs, width, stride) of each bottleneck block of a size (a table of ``[sizes]``)."""
    inputs = size["width"]
    for stage, depth in enumerate(size["blocks"]):
        width = size["width"] * 2**stage
        for block in range(depth):
            stride = 2 if stage > 0 and block == 0 else 1
            yield "layer%d.%d" % (stage + 1, block), inputs, width, stride
            inputs = width * EXPANSION


def features(size):
    """Return the number of channels that reach the fully connected layer."""
    return size["width"] * 2 ** (len(size["blocks"]) - 1) * EXPANSION


def convolutions(size):
    """Return all convolutions in the order of the forward pass."""
    pixels = _halved(size["image_pixels"])
    found = [Convolution("conv1", "bn1", 3, size["width"], 7, 2, pixels)]
    pixels = _halved(pixels)
    for name, inputs, width, stride in blocks(size):
        outputs = width * EXPANSION
        found.append(Convolution(name + ".conv1", name + ".bn1", inputs, width, 1, 1, pixels))
        if stride == 2:
            pixels = _halved(pixels)
        found.append(Convolution(name + ".conv2", name + ".bn2", width, width, 3, stride, pixels))
        found.append(Convolution(name + ".conv3", name + ".bn3", width, outputs, 1, 1, pixels))
        if stride == 2 or inputs != outputs:
            shortcut = name + ".downsample"
            found.append(Convolution(shortcut + ".0", shortcut + ".1", inputs, outputs, 1, stride, pixels))
    return found


def _halved(pixels):
    """Side of the output of stride 2 with "same" symmetric padding."""
    return (pixels + 1) // 2


def flops(size):
    """Return the operations of one sample's forward pass: 2 per multiply-add, convolutions and matrix products only."""
    total = sum(2 * c.outputs * c.inputs * c.kernel**2 * c.pixels**2 for c in convolutions(size))
    return total + 2 * features(size) * size["classes"]


def shapes(size):
    """Return {name: shape} of the trainable parameters, in the order of the forward pass."""
    found = collections.OrderedDict()
    for c in convolutions(size):
        found[c.name + ".weight"] = (c.outputs, c.inputs, c.kernel, c.kernel)
        found[c.norm + ".weight"] = (c.outputs,)
        found[c.norm + ".bias"] = (c.outputs,)
    found["fc.weight"] = (size["classes"], features(size))
    found["fc.bias"] = (size["classes"],)
    return found


def parameters(size):
    """Return the number of trainable parameters."""
    total = 0
    for shape in shapes(size).values():
        count = 1
        for extent in shape:
            count *= extent
        total += count
    return total


def initial_weights(size, seed):
    """Return {name: float32 array}: He's normal initialisation over the outputs, as torchvision's ``resnet50`` has it.

    Convolutions are normal with variance 2 / (outputs * height * width); normalisations begin as the identity; the last
    layer is uniform within 1 / sqrt(inputs). ``RandomState`` is frozen: its numbers are the same in every numpy.
    """
    import numpy

    generator = numpy.random.RandomState(seed)
    weights = collections.OrderedDict()
    for name, shape in shapes(size).items():
        if len(shape) == 4:
            deviation = math.sqrt(2.0 / (shape[0] * shape[2] * shape[3]))
            values = generator.standard_normal(shape) * deviation
        elif name.startswith("fc."):
            bound = 1.0 / math.sqrt(features(size))
            values = generator.uniform(-bound, bound, shape)
        else:
            values = numpy.full(shape, 1.0 if name.endswith(".weight") else 0.0)
        weights[name] = values.astype(numpy.float32)
    return weights


def optimizer(job):
    """Return {learning_rate, momentum, weight_decay}: the rate is scaled to the global batch.

    Source: Goyal et al., "Accurate, Large Minibatch SGD", 2017: 0.1 for 256 images, in proportion for others. Its
    gradual warm-up is left out: at the batches of one machine the rate is small.
    """
    facts = job["model"]["optimizer"]
    images = job["plan"]["per_device_batch_size"] * job["world_size"]
    return {
        "learning_rate": facts["learning_rate"] * images / float(facts["learning_rate_images"]),
        "momentum": facts["momentum"],
        "weight_decay": facts["weight_decay"],
    }
