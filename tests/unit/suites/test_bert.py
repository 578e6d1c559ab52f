"""BERT base and large as data, against the literature."""

import pytest

from orchestrator.services.facts.catalog import load_catalog
from suites.assemble import layers
from suites.assemble.layers import Attention, Linear
from suites.models.bert_base import network

MODELS = load_catalog().models
# transformers' BertForPreTraining and BertForQuestionAnswering (no pooler), with bert-base-uncased's configuration and
# bert-large-uncased's.
COUNTS = {"bert-base": (110106428, 108893186), "bert-large": (336226108, 334094338)}
FROZEN = {"freeze_encoder": True}
FINETUNE = {"task": "finetune"}


def size(name, which="full", **options):
    return MODELS[name].facts_with(options)["sizes"][which]


@pytest.mark.parametrize("which", ["full", "small"])
@pytest.mark.parametrize("name", COUNTS)
def test_both_tasks_have_the_published_numbers_of_weights(name, which):
    counted = [layers.count(network.layers(size(name, which, **options))) for options in ({}, FINETUNE)]
    assert tuple(counted) == COUNTS[name]


def test_the_shapes_are_those_of_the_paper():
    """Devlin et al., section 3: L = 12, H = 768, A = 12, and L = 24, H = 1024, A = 16."""
    for name, shape in {"bert-base": (12, 768, 12), "bert-large": (24, 1024, 16)}.items():
        attentions = [one for one in network.layers(size(name)) if isinstance(one, Attention)]
        assert (len(attentions), attentions[0].width, attentions[0].heads) == shape
        assert not any(one.causal for one in attentions)


def test_only_hidden_tokens_are_predicted():
    full = size("bert-base")
    (output,) = [one for one in network.layers(full) if one.name == "output"]
    assert (output.places, output.table, output.flops()) == (20, "embeddings.tokens", 2 * 20 * 30522 * 768)
    (pooler,) = [one for one in network.layers(full) if one.name == "pooler"]
    assert pooler.flops() == 2 * 768**2


@pytest.mark.parametrize("which", ["full", "small", "tiny"])
@pytest.mark.parametrize("name", COUNTS)
def test_a_frozen_encoder_leaves_the_gradients_behind_it(name, which):
    for options in ({}, FINETUNE):
        own = size(name, which, **options, **FROZEN)
        behind = [one for one in network.layers(own) if not one.name.startswith(("encoder.", "embeddings."))]
        # Both gradients of what reads a trained layer's output; of what reads the encoder its weights' only, and of a
        # table that is frozen its input's only.
        gradients = sum(one.flops() * (2 if one.name == "following" else 1) for one in behind)
        assert own["input_gradient_flops_per_sample"] == 2 * own["flops_per_sample"] - gradients
        trained = MODELS[name].facts_with({**options, **FROZEN}) | own
        assert trained["trainable_parameters"] == layers.count(behind)


def test_weights_begin_within_two_deviations():
    found = layers.initial_weights(network.layers(size("bert-base", "tiny")), 1)["encoder.0.inner.weight"]
    assert abs(found).max() <= 0.04
    assert found.std() == pytest.approx(0.02 * 0.8796, rel=0.03)  # of a normal distribution cut off at two deviations


def test_fine_tuning_has_another_end_another_input_and_a_rate_of_its_own():
    facts = MODELS["bert-large"].facts_with(FINETUNE)
    assert facts["input"] == "questions"
    assert facts["optimizer"]["learning_rate"] == 5e-5
    described = network.layers(facts["sizes"]["full"])
    assert isinstance(described[-1], Linear)
    assert (described[-1].outputs, described[-1].places) == (2, 384)
