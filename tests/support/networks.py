"""The layers of the suite's networks at the size tiny, for tests that hold a profile against them."""

import importlib
import itertools

from suites.assemble import layers
from suites.assemble.layers import Convolution, Normalization
from tests.trainer_process import model_facts


def layers_of(model, size):
    """The layers of ``model`` (its ``ModelFacts``) at ``size``, a table of its facts."""
    return importlib.import_module(model.module + ".network").layers(size)


def ways(model):
    """The values of options by which the facts of ``model`` (its ``ModelFacts``) differ; no value: the defaults."""
    return [{}, *(dict(variant.when) for variant in model.variants)]


def offers(model, options, size):
    """Whether ``options`` are offered at the size of that name."""
    return not any(model.options[name].problem_at(value, size) for name, value in options.items())


def way_id(model, options, *more):
    """What a test of ``options`` is called."""
    return "-".join([model.name, *(f"{name}={value}" for name, value in options.items()), *more])


def described(model):
    """The layers of ``model`` (its folder)."""
    network = importlib.import_module(f"suites.models.{model}.network")
    return network.layers(model_facts(model)["sizes"]["tiny"])


def shapes(model):
    """{name: shape} of its parameters."""
    return layers.shapes(described(model))


def parameters(model):
    """How many numbers it trains."""
    return layers.count(described(model))


def convolutions(model):
    """Its convolutions, in the order of the forward pass."""
    return [layer for layer in described(model) if isinstance(layer, Convolution)]


def normalizations(model):
    """{convolution: the normalisation that follows it}, by name."""
    pairs = itertools.pairwise(described(model))
    return {one.name: other.name for one, other in pairs if isinstance(other, Normalization)}
