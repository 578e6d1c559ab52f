"""Faster R-CNN as data: against the literature, and how its numbers go on through all of its blocks."""

import numpy

from suites.assemble import layers
from suites.models.faster_rcnn import network
from suites.models.resnet_50 import network as resnet
from tests.trainer_process import model_facts

FACTS = model_facts("faster_rcnn")
FULL = FACTS["sizes"]["full"]


def test_it_is_resnet_101_with_what_proposes_and_what_tells():
    found = network.layers(FULL)
    whole = resnet.layers({"image_pixels": 224, "width": 64, "blocks": [3, 4, 23, 3], "classes": 1000})
    own = {name: shape for name, shape in layers.shapes(found).items() if not name.startswith(("rpn.", "head."))}
    assert own == {name: shape for name, shape in layers.shapes(whole).items() if not name.startswith("fc.")}
    assert layers.count(found) == 47462111
    # Ren et al., 2015, section 3.1: nine anchors at each place, two scores and four moves of each.
    shapes = layers.shapes(found)
    assert [shapes[f"rpn.{name}.weight"][0] for name in ("conv", "objects", "moves")] == [512, 18, 36]
    assert [shapes[f"head.{name}.weight"] for name in ("classes", "moves")] == [(21, 2048), (84, 2048)]
    assert round(layers.flops(found) / 1e9) == 400


def test_the_map_has_a_sixteenth_of_the_image_and_regions_are_halved_by_the_last_stage():
    parts = network.parts(FULL)
    assert [parts.shared[at].conv3.pixels for at in (0, 3, 7, 29)] == [(150, 250), (75, 125), (38, 63), (38, 63)]
    assert parts.first[0].pixels == (38, 63)
    assert [parts.inner[0].conv1.pixels, parts.inner[-1].conv3.pixels] == [(128 * 14, 14), (128 * 7, 7)]


def test_the_first_two_stages_and_all_normalisations_stay():
    found = network.layers(FULL)
    stay = layers.frozen(found, FULL["frozen"])
    norms = {one.name for layer in found if isinstance(layer, layers.FixedNormalization) for one in layer.parameters()}
    of_first = {name for name in layers.shapes(found) if name.startswith(("conv1.", "layer1."))}
    assert stay == norms | of_first
    assert layers.count(found, stay) == FACTS["trainable_parameters"]


def test_numbers_keep_their_scale_through_all_blocks():
    """Of one place, to which every convolution is a matrix: the sum of a kernel's products has the variance that the
    layers state."""
    generator = numpy.random.RandomState(1)
    parts = network.parts(FULL)

    def through(convolution, norm, x):
        deviation = numpy.sqrt(convolution.initial[1] ** 2 * numpy.prod(layers.sides(convolution.kernel)))
        weights = generator.standard_normal((convolution.outputs, convolution.inputs)) * deviation
        return norm.scale * weights @ x

    x = numpy.maximum(0, generator.standard_normal(64)) * numpy.sqrt(2)
    sizes = []
    for block in parts.shared + parts.inner:
        shortcut = through(*block.shortcut, x) if block.shortcut else x
        y = numpy.maximum(0, through(block.conv1, block.bn1, x))
        y = numpy.maximum(0, through(block.conv2, block.bn2, y))
        x = numpy.maximum(0, through(block.conv3, block.bn3, y) + shortcut)
        sizes.append(numpy.sqrt((x**2).mean()))
    assert len(sizes) == 33
    assert min(sizes) > 0.3
    assert max(sizes) < 3
