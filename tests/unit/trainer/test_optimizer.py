"""The rule by which weights are updated, and the rate of each step."""

import pytest

from tests.trainer_process import model_facts, read_job
from workers.trainer.base import optimizer
from workers.trainer.base.failure import TrainerError


def rates(steps, **facts):
    rule = optimizer.complete({"learning_rate": 8.0, **facts})
    return [optimizer.rate(rule, step) for step in steps]


def test_a_rate_without_warm_up_or_decay_stays():
    assert optimizer.is_constant(optimizer.complete({"learning_rate": 8.0}))
    assert rates((1, 10**9)) == [8.0, 8.0]


def test_a_rate_rises_in_proportion_to_the_step():
    assert rates((1, 2, 3, 4, 5), warmup_steps=4) == [2.0, 4.0, 6.0, 8.0, 8.0]


def test_a_rate_falls_along_a_line_half_a_cosine_or_a_root():
    assert rates((2, 4, 6, 9), warmup_steps=2, decay="linear", decay_steps=6) == [8.0, 4.0, 0.0, 0.0]
    assert rates((2, 4, 6, 9), warmup_steps=2, decay="cosine", decay_steps=6) == pytest.approx([8.0, 4.0, 0.0, 0.0])
    assert rates((3,), decay="cosine", decay_steps=4)[0] == pytest.approx(4.0 * (1 - 2**-0.5))
    assert rates((4, 16, 64), warmup_steps=4, decay="inverse-sqrt") == [8.0, 4.0, 2.0]


@pytest.mark.parametrize(
    ("facts", "named"),
    [
        ({"name": "lamb"}, "sgd, adam, adamw"),
        ({"decay": "steps"}, "inverse-sqrt"),
        ({"decay": "cosine"}, "decay_steps"),
        ({"decay": "inverse-sqrt"}, "warmup_steps"),
        ({"nesterov": True}, "no nesterov"),
    ],
)
def test_what_is_not_known_is_refused_by_name(facts, named):
    with pytest.raises(TrainerError, match=named):
        optimizer.complete({"learning_rate": 1.0, **facts})


def test_a_rate_for_so_many_samples_is_in_proportion_for_others_and_any_other_is_as_it_stands():
    def rate_of(**facts):
        model = {**model_facts("resnet_50"), "optimizer": facts}
        job = read_job("resnet_50", "pytorch", {"model": model}, ranks=4, per_device_batch_size=16)
        return optimizer.of_job(job)["learning_rate"]

    assert rate_of(learning_rate=0.5) == 0.5
    assert rate_of(learning_rate=0.5, learning_rate_samples=256) == 0.125
    assert rate_of(learning_rate=0.5, learning_rate_samples=16) == 2.0
    assert rate_of(learning_rate=0.5, learning_rate_samples=16, learning_rate_most_scale=2) == 1.0
    assert rate_of(learning_rate=0.5, learning_rate_samples=256, learning_rate_most_scale=2) == 0.125
