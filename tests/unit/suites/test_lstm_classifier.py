"""The LSTM classifier as data, against the literature."""

import pytest

from suites.assemble import layers
from suites.models.lstm_classifier import network
from tests.trainer_process import model_facts

SIZES = model_facts("lstm_classifier")["sizes"]


def test_full_and_small_are_the_published_network():
    for name in ("full", "small"):
        gates = 4 * (512 * (300 + 512) + 2 * 512)
        assert layers.count(network.layers(SIZES[name])) == 50000 * 300 + gates + 4 * 512 + 4
    assert layers.flops(network.layers(SIZES["full"])) == 64 * 2 * 4 * 512 * (300 + 512) + 2 * 512 * 4


def test_a_second_layer_reads_the_first():
    first, second = network.lstm({**SIZES["tiny"], "lstm_layers": 2})
    assert (first.inputs, second.inputs) == (24, 32)


def test_weights_begin_as_those_of_pytorchs_layers():
    found = layers.initial_weights(network.layers(SIZES["tiny"]), 1)
    assert found["embedding.weight"].std() == pytest.approx(1.0, rel=0.05)
    assert abs(found["lstm.weight_ih_l0"]).max() <= 1 / 32**0.5
