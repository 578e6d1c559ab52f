"""ResNet-50 as data, against the literature."""

import pytest

from suites.assemble import layers
from suites.assemble.layers import Convolution
from suites.models.resnet_50 import network
from tests.trainer_process import model_facts

SIZES = model_facts("resnet_50")["sizes"]


def convolutions(size):
    return [layer for layer in network.layers(size) if isinstance(layer, Convolution)]


def test_full_and_small_are_the_published_network():
    for name in ("full", "small"):
        assert layers.count(network.layers(SIZES[name])) == 25557032
        assert len(convolutions(SIZES[name])) == 53
    # torchvision's documentation of ResNet50_Weights: 4.09 GFLOPs, counted as multiply-adds.
    assert layers.flops(network.layers(SIZES["full"])) == pytest.approx(2 * 4.09e9, rel=1e-3)


def test_the_stride_is_in_the_middle_convolution():
    strided = [one.name for one in convolutions(SIZES["full"]) if one.stride == 2]
    inner = [f"layer{stage}.0.{part}" for stage in (2, 3, 4) for part in ("conv2", "downsample.0")]
    assert strided == ["conv1", *inner]


def test_convolutions_begin_with_hes_deviation_over_the_outputs():
    found = layers.initial_weights(network.layers(SIZES["tiny"]), 1)
    assert found["layer4.0.conv2.weight"].std() == pytest.approx((2 / (128 * 9)) ** 0.5, rel=0.05)
