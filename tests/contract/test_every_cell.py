"""Every model is the same network in all its frameworks by ``tbd parity`` itself, a fresh process for each framework.

At the sizes tiny and small, by every option that makes another network of a model: a part of ``make suite-check``.
"""

import pytest

from orchestrator.cli.commands.measure.parity import compared
from orchestrator.services.facts.catalog import load_catalog
from tests.support.networks import offers, way_id, ways

MODELS = [model for model in load_catalog().models.values() if "input" in model.facts]
CELLS = [
    pytest.param(model.name, options, size, id=way_id(model, options, size))
    for model in MODELS
    for options in ways(model)
    for size in ("tiny", "small")
    if offers(model, options, size)
]


@pytest.mark.thorough
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("model", "options", "size"), CELLS)
def test_a_cell_is_the_same_network_by_fresh_processes(model, options, size):
    found = compared(model, size, "", batch=4, seed=1, options=options)
    assert {name: one.get("problems") for name, one in found["frameworks"].items() if not one["same"]} == {}
    assert found["parameters"]["counted"] == found["parameters"]["stated"]
    (facts,) = [one for one in MODELS if one.name == model]
    assert set(found["frameworks"]) | set(found["skipped"]) == set(facts.frameworks)
    assert "pytorch" in found["frameworks"]
