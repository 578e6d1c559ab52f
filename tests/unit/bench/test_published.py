"""What the comparison with published networks takes for the same network, and which ones are asked for."""

import math

import pytest

from bench import bench, published, ratio
from orchestrator.services.facts.catalog import load_catalog
from orchestrator.services.probe import parity

ALIKE = {"loss": 5.0, "dropped_loss": 5.1, "samples_per_s": 2.0, "operations": 9}


def test_rounding_is_no_other_network():
    published.check("gpt-2", ALIKE, {**ALIKE, "loss": 5.0001, "samples_per_s": 1.0})


@pytest.mark.parametrize("loss", ["loss", "dropped_loss"])
def test_another_loss_is_another_network(loss):
    with pytest.raises(RuntimeError, match=rf"gpt-2: with the same weights {loss} is 5\.\d and 4\.9"):
        published.check("gpt-2", ALIKE, {**ALIKE, loss: 4.9})


def test_a_network_that_draws_numbers_of_its_own_is_compared_without_dropout():
    published.check("transformer", ALIKE, {**ALIKE, "dropped_loss": 4.9})
    with pytest.raises(RuntimeError, match="two networks"):
        published.check("transformer", ALIKE, {**ALIKE, "loss": 4.9})


def test_other_operations_are_other_work_but_where_not_all_are_counted():
    published.check("seq2seq", ALIKE, {**ALIKE, "operations": 8})
    with pytest.raises(RuntimeError, match="gpt-2: a step has 9 operations and 8"):
        published.check("gpt-2", ALIKE, {**ALIKE, "operations": 8})


@pytest.mark.parametrize(("deviation", "pairs"), [(0.001, 6), (0.0125, 9), (0.02, 18), (0.1, 40)])
def test_a_pilot_says_how_many_pairs_make_an_interval_of_a_percent(deviation, pairs):
    """By t x deviation / sqrt(pairs) <= 0.00995, from tables of t: 2.571 of 6, 2.306 of 9, 2.110 of 18."""
    apart = deviation * (5 / 6) ** 0.5
    assert ratio.pairs_for([math.exp(sign * apart) for sign in (1, -1) * 3], [1.0] * 6) == pairs


@pytest.mark.parametrize("name", published.NETWORKS)
def test_a_network_is_one_of_the_suites(name):
    network = published.NETWORKS[name]
    facts = load_catalog().models[network.model]
    assert network.framework in facts.frameworks
    assert parity.size_of(facts, published.SIZE, network.options)


def test_a_network_that_is_not_compared_is_refused(capsys):
    with pytest.raises(SystemExit):
        bench.main(["published", "--only", "alexnet"])
    assert "invalid choice: 'alexnet'" in capsys.readouterr().err
