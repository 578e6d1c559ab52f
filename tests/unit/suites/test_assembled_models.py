"""What holds for every model that is assembled from layers, and the layouts of parameters."""

import importlib

import numpy
import pytest

from orchestrator.services.facts.catalog import load_catalog
from suites.assemble import layers, layouts
from tests.support.networks import offers, way_id, ways
from tests.trainer_process import read_job
from workers.trainer.base import optimizer, updates

MODELS = {name: model for name, model in load_catalog().models.items() if "input" in model.facts}
SIZES = [
    pytest.param(name, options, size, id=way_id(model, options, size))
    for name, model in MODELS.items()
    for options in ways(model)
    for size in model.sizes
    if offers(model, options, size)
]

# Those that state which batch their rate is for.
SCALED = [name for name, model in MODELS.items() if "learning_rate_samples" in model.facts["optimizer"]]


def described(name, size, options=()):
    sizes = MODELS[name].facts_with(dict(options))["sizes"]
    return importlib.import_module(MODELS[name].module + ".network").layers(sizes[size])


def test_the_models_of_the_suite_are_among_them():
    assert {"resnet-50", "lstm-classifier"} <= set(MODELS)


@pytest.mark.parametrize(("name", "options", "size"), SIZES)
def test_the_facts_of_each_size_are_those_of_its_layers(name, options, size):
    told, found = MODELS[name].facts_with(options), described(name, size, options)
    facts = told["sizes"][size]
    assert layers.flops(found) == facts["flops_per_sample"]
    assert layers.count(found) == facts.get("parameters", told["parameters"])
    stay = layers.frozen(found, facts.get("frozen", ()))
    assert layers.count(found, stay) == facts.get("trainable_parameters", told["trainable_parameters"])
    assert len({one.name for one in layers.parameters(found)}) == len(layers.parameters(found))


@pytest.mark.parametrize("name", MODELS)
def test_initial_weights_follow_the_seed(name):
    one, again, other = (layers.initial_weights(described(name, "tiny"), seed) for seed in (1, 1, 2))
    assert all(numpy.array_equal(one[weight], again[weight]) for weight in one)
    assert any(not numpy.array_equal(one[weight], other[weight]) for weight in one)
    assert {value.dtype.name for value in one.values()} == {"float32"}


@pytest.mark.parametrize("name", SCALED)
def test_the_learning_rate_is_in_proportion_to_the_global_batch(name):
    facts = MODELS[name].facts["optimizer"]
    batch = facts["learning_rate_samples"] // 4
    job = read_job(MODELS[name].module.rpartition(".")[2], "pytorch", ranks=2, per_device_batch_size=batch)
    assert optimizer.of_job(job)["learning_rate"] == pytest.approx(facts["learning_rate"] / 2)


@pytest.mark.parametrize("name", SCALED)
def test_no_model_trains_sixteen_devices_with_large_batches_at_a_rate_that_needs_a_warm_up(name):
    job = read_job(MODELS[name].module.rpartition(".")[2], "pytorch", ranks=16, per_device_batch_size=256)
    rule = optimizer.of_job(job)
    assert optimizer.is_constant(rule)  # the same update at every batch: what it costs is part of what is measured
    assert rule["learning_rate"] == MODELS[name].facts["optimizer"]["learning_rate"]


@pytest.mark.parametrize("name", sorted(set(MODELS) - set(SCALED)))
def test_the_others_update_by_adam_whose_rate_is_the_same_at_every_batch_and_rises_if_it_is_high(name):
    found = []
    for ranks, batch in ((1, 2), (16, 256)):
        job = read_job(MODELS[name].module.rpartition(".")[2], "pytorch", ranks=ranks, per_device_batch_size=batch)
        rules = updates.rules(job)
        found.append(list(rules.values()) if updates.names(job) else [rules])
    assert found[0] == found[1]
    for rule in found[0]:
        assert rule["name"].startswith("adam")
        assert optimizer.rate(rule, 1) <= (1e-3 if name == "a3c" else 3e-4)  # of few layers


def test_a_layout_is_undone_exactly():
    value = numpy.arange(24).reshape(4, 6)
    layout = layouts.Layout((2, 0, 3, 1), (1, 0))
    there = layouts.apply(layout, value)
    assert there.shape == (6, 4)
    assert (there[:, 0] == value[2]).all()
    assert (layouts.undo(layout, there) == value).all()
    assert layouts.apply(layouts.AS_IT_IS, value) is value
