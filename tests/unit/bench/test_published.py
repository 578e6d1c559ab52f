"""What the comparison with published networks takes for the same network, and which ones are asked for."""

import pytest

from bench import bench, published
from orchestrator.services.facts.catalog import load_catalog
from orchestrator.services.probe import parity

ALIKE = {"loss": 5.0, "dropped_loss": 5.1, "samples_per_s": 2.0}


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


@pytest.mark.parametrize("name", published.NETWORKS)
def test_a_network_is_one_of_the_suites_in_pytorch(name):
    network = published.NETWORKS[name]
    facts = load_catalog().models[network.model]
    assert "pytorch" in facts.frameworks
    assert parity.size_of(facts, published.SIZE, network.options)


def test_a_network_that_is_not_compared_is_refused(capsys):
    with pytest.raises(SystemExit):
        bench.main(["published", "--only", "alexnet"])
    assert "invalid choice: 'alexnet'" in capsys.readouterr().err
