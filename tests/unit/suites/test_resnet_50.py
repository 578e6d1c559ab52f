"""ResNet-50 as data, against the literature."""

import pytest

from orchestrator.services.facts.catalog import load_catalog
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


# torchvision's documentation of ResNet101_Weights and ResNet152_Weights: num_params, and GFLOPs as multiply-adds.
@pytest.mark.parametrize(("depth", "parameters", "multiply_adds"), [(101, 44549160, 7.8e9), (152, 60192808, 11.51e9)])
def test_the_deeper_ones_are_the_published_networks(depth, parameters, multiply_adds):
    facts = load_catalog().models["resnet-50"].facts_with({"depth": depth})
    for name in ("full", "small"):
        assert layers.count(network.layers(facts["sizes"][name])) == parameters == facts["parameters"]
    assert layers.flops(network.layers(facts["sizes"]["full"])) == pytest.approx(2 * multiply_adds, rel=1e-3)
    # He et al., table 1: three convolutions a block, one before them, and the classifier.
    for name in ("full", "small"):
        assert 3 * sum(facts["sizes"][name]["blocks"]) + 2 == facts["layers"] == depth


def test_each_depth_is_another_network_at_the_size_tiny_too():
    model = load_catalog().models["resnet-50"]
    counts = [len(convolutions(model.facts_with({"depth": depth})["sizes"]["tiny"])) for depth in (50, 101, 152)]
    assert counts == sorted(set(counts))
