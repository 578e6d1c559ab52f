"""AlexNet as data, against the literature."""

import pytest

from suites.assemble import layers
from suites.assemble.layers import Convolution, Dropout, Linear
from suites.models.alexnet import network
from tests.trainer_process import model_facts

SIZES = model_facts("alexnet")["sizes"]


def of_kind(kind, size):
    return [layer for layer in network.layers(SIZES[size]) if isinstance(layer, kind)]


def test_full_is_the_published_network():
    assert layers.count(network.layers(SIZES["full"])) == 61100840
    # torchvision's documentation of AlexNet_Weights: 0.71 GFLOPs, counted as multiply-adds.
    assert layers.flops(network.layers(SIZES["full"])) == pytest.approx(2 * 0.71e9, rel=1e-2)


def test_the_maps_are_those_of_the_second_form_and_end_with_6_by_6():
    assert [one.pixels for one in of_kind(Convolution, "full")] == [55, 27, 13, 13, 13]
    assert of_kind(Linear, "full")[0].inputs == 256 * 6 * 6


@pytest.mark.parametrize("size", SIZES)
def test_each_size_has_eight_layers_with_parameters_and_drops_before_two_of_them(size):
    assert len(of_kind(Convolution, size) + of_kind(Linear, size)) == model_facts("alexnet")["layers"]
    assert [one.rate for one in of_kind(Dropout, size)] == [SIZES[size]["dropout"]] * 2


def test_weights_begin_with_caffes_xavier_and_biases_with_zero():
    found = layers.initial_weights(network.layers(SIZES["tiny"]), 1)
    assert found["conv3.weight"].std() == pytest.approx((1 / (24 * 9)) ** 0.5, rel=0.05)
    assert not found["conv3.bias"].any()
