"""Several updates in a step: what facts and models say of them, and what is refused."""

import collections

import pytest

from tests.trainer_process import model_facts, read_job
from workers.trainer import profiling
from workers.trainer.base import optimizer, updates
from workers.trainer.base.failure import TrainerError
from workers.trainer.base.updates import Update

SEVERAL = {"critic": {"learning_rate": 0.1, "learning_rate_samples": 8}, "generator": {"learning_rate": 0.3}}
Model = collections.namedtuple("Model", "updates")
Adapter = collections.namedtuple("Adapter", "abilities abilities_with_several")
ADAPTER = Adapter(("kernels", "layers"), ("kernels",))


def job(facts, **plan):
    model = {**model_facts("resnet_50"), "optimizer": facts}
    return read_job("resnet_50", "pytorch", {"model": model}, ranks=4, per_device_batch_size=4, **plan)


def update(name, times=1):
    return Update(name, None, [], {}, times)


def refusal(call, *arguments):
    with pytest.raises(TrainerError) as error:
        call(*arguments)
    return error.value.kind, str(error.value)


def test_each_optimiser_has_a_rate_for_its_own_batch():
    found = [optimizer.of_job(job(SEVERAL), name)["learning_rate"] for name in ("critic", "generator")]
    assert found == pytest.approx([0.2, 0.3])


def test_numbers_are_given_to_each_optimiser_of_several_and_to_the_only_one():
    assert optimizer.changed(SEVERAL, learning_rate=1.0)["generator"] == {"learning_rate": 1.0}
    assert optimizer.changed({"name": "adam"}, learning_rate=1.0) == {"name": "adam", "learning_rate": 1.0}


def test_a_model_has_the_updates_that_its_facts_name():
    one, other = update("generator"), update("critic", times=5)
    assert updates.of_model(Model((one, other)), job(SEVERAL)) == (one, other)
    (whole,) = updates.of_model(Model(updates.whole(None, iter("ab"), {})), job({"name": "sgd", "betas": [0.9, 0.99]}))
    assert (whole.parameters, whole.times) == (["a", "b"], 1)


@pytest.mark.parametrize(
    ("found", "facts", "told"),
    [
        ((update("critic"),), SEVERAL, "updates critic, and its facts have an optimiser for critic, generator"),
        ((update("critic"), update("generator")), {}, "an optimiser for all together"),
        ((update("all", times=2),), {}, "carried out once"),
    ],
)
def test_a_model_that_does_not_fit_its_facts_is_a_failed_set_up(found, facts, told):
    kind, message = refusal(updates.of_model, Model(found), job(facts))
    assert kind == "setup_failed"
    assert told in message


def test_a_profile_that_is_not_told_for_several_updates_is_refused_before_anything_is_made():
    profiling.check(job(SEVERAL, profile=["kernels"]), ADAPTER)
    profiling.check(job({}, profile=["kernels", "layers"]), ADAPTER)
    kind, message = refusal(profiling.check, job(SEVERAL, profile=["kernels", "layers"]), ADAPTER)
    assert kind == "unsupported"
    assert message == (
        "a step of this model has the updates critic, generator: this adapter makes a profile of layers for one only"
    )
