"""The counts of ResNet-50's architecture against its facts and the literature."""

import numpy
import pytest

from suites.models.resnet_50 import architecture
from tests.trainer_process import make_job, model_facts

FACTS = model_facts("resnet_50")


@pytest.mark.parametrize("name", ["full", "small", "tiny"])
def test_the_facts_of_each_size_are_those_of_its_layers(name):
    size = FACTS["sizes"][name]
    assert architecture.flops(size) == size["flops_per_sample"]
    assert architecture.parameters(size) == size.get("parameters", FACTS["parameters"])


def test_full_and_small_are_the_published_network():
    for name in ("full", "small"):
        assert architecture.parameters(FACTS["sizes"][name]) == 25557032
        assert len(architecture.convolutions(FACTS["sizes"][name])) == 53
    # torchvision's documentation of ResNet50_Weights: 4.09 GFLOPs, counted as multiply-adds.
    assert architecture.flops(FACTS["sizes"]["full"]) == pytest.approx(2 * 4.09e9, rel=1e-3)


def test_the_stride_is_in_the_middle_convolution():
    strided = [c.name for c in architecture.convolutions(FACTS["sizes"]["full"]) if c.stride == 2]
    inner = [f"layer{stage}.0.{part}" for stage in (2, 3, 4) for part in ("conv2", "downsample.0")]
    assert strided == ["conv1", *inner]


def test_initial_weights_follow_the_seed():
    size = FACTS["sizes"]["tiny"]
    one, again, other = (architecture.initial_weights(size, seed) for seed in (1, 1, 2))
    assert all(numpy.array_equal(one[name], again[name]) for name in one)
    assert not numpy.array_equal(one["conv1.weight"], other["conv1.weight"])
    assert one["layer4.0.conv2.weight"].std() == pytest.approx((2 / (128 * 9)) ** 0.5, rel=0.05)
    assert {value.dtype.name for value in one.values()} == {"float32"}


def test_the_learning_rate_is_in_proportion_to_the_global_batch():
    assert architecture.optimizer(make_job("resnet_50", "pytorch", per_device_batch_size=256))["learning_rate"] == 0.1
    job = make_job("resnet_50", "pytorch", ranks=4, per_device_batch_size=32)
    assert architecture.optimizer(job)["learning_rate"] == pytest.approx(0.05)
