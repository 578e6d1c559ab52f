"""The Transformer as data, against the literature."""

import numpy
import pytest

from suites.assemble import layers
from suites.assemble.layers import Attention, Positions
from suites.models.transformer import network
from tests.trainer_process import model_facts
from workers.trainer.base import optimizer

FACTS = model_facts("transformer")
SIZES = FACTS["sizes"]


@pytest.mark.parametrize("name", ["full", "small"])
def test_the_base_network_has_the_parameters_of_the_formula(name):
    width, inner = 512, 2048
    fed = 2 * width * inner + inner + width
    encoder = 4 * width**2 + fed + 2 * 2 * width
    decoder = 8 * width**2 + fed + 3 * 2 * width
    expected = 37000 * width + 6 * encoder + 6 * decoder
    assert layers.count(network.layers(SIZES[name])) == expected == FACTS["parameters"]
    assert expected == pytest.approx(65e6, rel=0.035)  # Vaswani et al., table 3


def test_a_decoder_looks_at_itself_in_order_and_at_all_of_the_source():
    tiny = SIZES["tiny"]
    own, source = network.decoders(tiny)[0].own.attention, network.decoders(tiny)[0].source.attention
    assert (own.causal, own.queries, own.keys) == (True, 10, 10)
    assert (source.causal, source.queries, source.keys) == (False, 10, 12)
    assert sum(isinstance(one, Attention) for one in network.layers(SIZES["full"])) == 18


def test_operations_count_each_side_by_its_own_length():
    tiny = SIZES["tiny"]
    width, inner, s, t = 32, 64, 12, 10
    encoder = s * 2 * (4 * width**2 + 2 * width * inner) + 4 * s * s * width
    decoder = t * 2 * (6 * width**2 + 2 * width * inner) + s * 2 * 2 * width**2 + 4 * t * (t + s) * width
    expected = 2 * encoder + 2 * decoder + 2 * t * 197 * width
    assert layers.flops(network.layers(tiny)) == expected


def test_places_are_told_by_the_papers_sines():
    table = Positions("places", 50, 512).table()
    assert table[0, :4].tolist() == [0.0, 1.0, 0.0, 1.0]
    assert table[7, 20] == pytest.approx(numpy.sin(7 / 10000 ** (20 / 512)))
    assert table[7, 21] == pytest.approx(numpy.cos(7 / 10000 ** (20 / 512)))


def test_the_rate_is_the_papers():
    rule = optimizer.complete(FACTS["optimizer"])
    for step in (1, 100, 4000, 100000):
        expected = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
        assert optimizer.rate(rule, step) == pytest.approx(expected)
