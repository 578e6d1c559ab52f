"""GPT-2 as data, against the literature."""

import pytest

from suites.assemble import layers
from suites.assemble.layers import Attention, Linear
from suites.models.gpt_2 import network
from tests.trainer_process import model_facts

SIZES = model_facts("gpt_2")["sizes"]


@pytest.mark.parametrize("name", ["full", "small"])
def test_the_published_network_has_124_439_808_numbers(name):
    width, vocabulary = 768, 50257
    block = 12 * width**2 + 13 * width  # four matrices of 3, 1, 4 and 4 squares, their biases, two normalisations
    expected = (vocabulary + 1024) * width + 12 * block + 2 * width
    assert layers.count(network.layers(SIZES[name])) == expected == 124439808


@pytest.mark.parametrize(("name", "rows", "beyond"), [("full", 50304, 47), ("small", 50304, 47), ("tiny", 256, 45)])
def test_a_padded_table_has_a_multiple_of_128_rows_and_no_other_layer_is_another(name, rows, beyond):
    size, padded = SIZES[name], {**SIZES[name], "padded": rows}
    assert (rows % 128, rows - size["vocabulary"]) == (0, beyond)
    plain, found = network.layers(size), network.layers(padded)
    assert [one for one, other in zip(found, plain, strict=True) if one != other] == [found[0], found[-1]]
    assert layers.count(found) - layers.count(plain) == beyond * size["width"]
    facts = next(one for one in model_facts("gpt_2")["variants"] if one["when"] == {"padded_vocabulary": True})
    assert facts["sizes"][name]["flops_per_sample"] == layers.flops(found)
    assert facts["sizes"][name].get("parameters", facts["parameters"]) == layers.count(found)


def test_operations_are_two_for_each_weight_and_token_and_four_for_each_pair_of_places():
    """Kaplan et al., "Scaling Laws for Neural Language Models", 2020, table 1, with the output; nothing masked off."""
    products = 12 * 12 * 768**2 + 50257 * 768
    assert layers.flops(network.layers(SIZES["full"])) == 1024 * (2 * products + 12 * 4 * 1024 * 768)


def test_what_ends_in_a_sum_begins_smaller():
    found = layers.initial_weights(network.layers(SIZES["tiny"]), 1)
    assert found["h.0.attn.c_attn.weight"].std() == pytest.approx(0.02, rel=0.05)
    assert found["h.1.mlp.c_proj.weight"].std() == pytest.approx(0.02 / 2, rel=0.05)
    assert found["wpe.weight"].std() == pytest.approx(0.01, rel=0.1)
    assert not found["h.0.mlp.c_fc.bias"].any()


def test_every_place_looks_at_itself_and_before_and_the_small_size_keeps_all_layers():
    full, small = (network.layers(SIZES[name]) for name in ("full", "small"))
    assert all(one.causal and one.heads == 12 for one in full if isinstance(one, Attention))
    assert [one.name for one in full] == [one.name for one in small]
    assert sum(isinstance(one, Linear) for one in full) == 48
