"""Inception-v3 as data, against the literature."""

import itertools

import pytest

from orchestrator.services.facts.catalog import load_catalog
from suites.assemble import layers
from suites.assemble.layers import Convolution, Normalization, Pooling
from suites.models.inception_v3 import network

MODEL = load_catalog().models["inception-v3"]
SIZES = MODEL.sizes
WITH_HEAD = MODEL.facts_with({"auxiliary_head": True})["sizes"]


def test_full_and_small_are_the_published_network():
    for name in ("full", "small"):
        assert layers.count(network.layers(SIZES[name])) == 23834568
    # torchvision's documentation of Inception_V3_Weights: num_params, of which the head has 3,326,696.
    assert layers.count(network.layers(WITH_HEAD["full"])) == 27161264
    # The same page: 5.71 GFLOPs, counted as multiply-adds.
    assert layers.flops(network.layers(SIZES["full"])) == pytest.approx(2 * 5.71e9, rel=1e-3)


def test_modules_give_the_channels_and_the_maps_of_the_published_network():
    """Table 1 of the paper: 35 x 35 x 288, 17 x 17 x 768, 8 x 8 x 1280 and 8 x 8 x 2048."""
    found, inputs = [], network.stem(SIZES["full"])[-2].conv.outputs
    assert inputs == 192
    for module in network.modules(SIZES["full"]):
        inputs = network.outputs(module, inputs)
        found.append((inputs, module.branches[0].units[-1].conv.pixels))
    assert found == [(256, 35), (288, 35), (288, 35)] + [(768, 17)] * 5 + [(1280, 8)] + [(2048, 8)] * 2


def test_the_longest_way_to_the_classifier_has_48_layers():
    before = [part for part in network.stem(SIZES["full"]) if isinstance(part, network.Unit)]
    longest = [max(len(b.units) + bool(b.ends) for b in module.branches) for module in network.modules(SIZES["full"])]
    assert len(before) + sum(longest) + 1 == MODEL.layers


def test_kernels_of_7_x_7_are_two_of_one_dimension():
    found = {one.name: one for one in network.layers(SIZES["full"]) if isinstance(one, Convolution)}
    across, down = found["Mixed_6b.branch7x7_2.conv"], found["Mixed_6b.branch7x7_3.conv"]
    assert (across.kernel, across.padding, down.kernel, down.padding) == ((1, 7), (0, 3), (7, 1), (3, 0))
    assert across.parameters()[0].shape == (128, 128, 1, 7)
    assert across.flops() == 2 * 128 * 128 * 7 * 17**2


def test_the_head_reads_what_the_last_module_of_17_x_17_gives_and_changes_nothing_else():
    head = network.auxiliary(WITH_HEAD["full"])
    assert (head.units[0].conv.inputs, head.units[0].conv.pixels, head.units[1].conv.pixels) == (768, 5, 1)
    assert network.auxiliary(SIZES["full"]) is None
    without = layers.initial_weights(network.layers(SIZES["tiny"]), 1)
    with_it = layers.initial_weights(network.layers(WITH_HEAD["tiny"]), 1)
    assert all((with_it[name] == value).all() for name, value in without.items())


def test_every_convolution_is_followed_by_a_normalisation_with_the_paper_s_epsilon():
    for size in (*SIZES.values(), WITH_HEAD["full"]):
        found = network.layers(size)
        pairs = [(one, after) for one, after in itertools.pairwise(found) if isinstance(one, Convolution)]
        assert all(isinstance(after, Normalization) and after.epsilon == 1e-3 for _, after in pairs)
        assert all(after.channels == one.outputs and after.pixels == one.pixels for one, after in pairs)


def test_averages_have_a_padding_and_maxima_have_none():
    poolings = [one for one in network.layers(SIZES["full"]) if isinstance(one, Pooling)]
    assert {(one.average, one.padding, one.stride) for one in poolings} == {(True, 1, 1), (False, 0, 2)}
