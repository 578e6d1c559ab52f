"""GoogLeNet as data, against the literature."""

import numpy
import pytest

from suites.assemble import layers
from suites.assemble.layers import Convolution, Response
from suites.models.googlenet import network
from tests.trainer_process import model_facts

SIZES = model_facts("googlenet")["sizes"]


def auxiliaries(size):
    return [module.auxiliary for module in network.modules(SIZES[size]) if module.auxiliary]


def test_full_is_the_published_network_with_both_auxiliary_classifiers():
    found = [layers.count(auxiliary[1:]) for auxiliary in auxiliaries("full")]
    assert found == [3188840, 3190888]
    assert layers.count(network.layers(SIZES["full"])) == 6998552 + sum(found)
    # Section 1: "1.5 billion multiply-adds", at inference: without the auxiliary classifiers.
    main = layers.flops(network.layers(SIZES["full"])) - sum(layers.flops(one[1:]) for one in auxiliaries("full"))
    assert main == pytest.approx(2 * 1.5e9, rel=0.06)


def test_modules_give_the_channels_and_the_maps_of_table_1():
    found = network.modules(SIZES["full"])
    assert [network.outputs(one) for one in found] == [256, 480, 512, 512, 512, 528, 832, 832, 1024]
    assert [one.project.pixels for one in found] == [28] * 2 + [14] * 5 + [7] * 2


def test_the_way_to_the_main_classifier_has_22_layers():
    """Three convolutions, two for each module on its longest branches, and the classifier (section 5)."""
    before = [one for one in network.stem(SIZES["full"]) if isinstance(one, Convolution)]
    assert len(before) + 2 * len(network.modules(SIZES["full"])) + 1 == model_facts("googlenet")["layers"]


def test_auxiliary_classifiers_see_the_fourth_stage():
    first, second = auxiliaries("full")
    assert (first.conv.inputs, second.conv.inputs) == (512, 528)
    assert [one.fc.inputs for one in (first, second)] == [4 * 4 * 128] * 2


def test_responses_are_normalised_as_caffe_does_it():
    found = [layer for layer in network.layers(SIZES["tiny"]) if isinstance(layer, Response)]
    assert found == [Response(name, size=5, alpha=1e-4, beta=0.75, k=1.0) for name in ("norm1", "norm2")]


@pytest.mark.parametrize("size", SIZES)
def test_no_kernel_is_larger_than_what_it_is_laid_on(size):
    """CNTK has no such convolutions."""
    for layer in network.layers(SIZES[size]):
        if isinstance(layer, Convolution):
            assert layer.kernel <= layer.pixels * layer.stride, layer.name


def test_biases_begin_with_a_fifth_and_those_of_classifiers_with_zero():
    found = layers.initial_weights(network.layers(SIZES["tiny"]), 1)
    assert set(found["inception_4a.conv5x5.bias"]) == {numpy.float32(0.2)}
    assert set(found["auxiliary1.fc.bias"]) == {numpy.float32(0.2)}
    assert not found["auxiliary2.classifier.bias"].any()
    assert not found["classifier.bias"].any()
