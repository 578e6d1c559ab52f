"""The update of weights in CNTK, by the rules of ``workers.trainer.base.optimizer``."""

from typing import Any, Sequence

import cntk

from workers.trainer.base import optimizer as rules
from workers.trainer.base.failure import TrainerError
from workers.trainer.base.signatures import Rule


def make(rule: Rule, parameters: Sequence[Any]) -> Any:
    """Return the learner of ``parameters``, on the mean gradient of a batch.

    CNTK's Adam adds epsilon to the root of the second moment before that is corrected.

    Raises:
        TrainerError: ``unsupported``, CNTK has no decay of the weights apart from the gradient, no momentum that a
            changing rate leaves alone, and limits the norm of each weight's gradient alone.
    """
    if rule["gradient_norm_limit"] is not None:
        raise TrainerError("unsupported", "CNTK limits the norm of each gradient alone, not that of all together")
    if rule["weight_decay"] and not rule["decay_vectors"]:
        raise TrainerError("unsupported", "CNTK's optimisers have one decay for all weights here, biases too")
    if rule["name"] == "sgd":
        if rule["momentum"] and not rules.is_constant(rule):
            # Its momentum holds updates, not gradients: with a rate that changes these are two algorithms.
            told = "CNTK %s cannot change the rate of SGD with momentum: that holds earlier rates"
            raise TrainerError("unsupported", told % cntk.__version__)
        momentum, options = rule["momentum"], {"unit_gain": False}
        kind = cntk.momentum_sgd
    else:
        if rule["name"] == "adamw" and rule["weight_decay"]:
            raise TrainerError("unsupported", "CNTK %s has no AdamW, only Adam" % cntk.__version__)
        momentum, kind = rule["betas"][0], cntk.adam
        options = {
            "unit_gain": True,
            "variance_momentum": _momentum(rule["betas"][1]),
            "epsilon": rule["epsilon"],
        }
    return kind(
        parameters,
        schedule(rule, rules.rate(rule, 1)),
        _momentum(momentum),
        l2_regularization_weight=rule["weight_decay"],
        **options,
    )


def schedule(rule: Rule, rate: Any) -> Any:
    """Return CNTK's schedule of a rate that stays.

    Without a reference batch CNTK divides Adam's rate by the batch, as if it were meant for sums of gradients.
    """
    reference = cntk.learners.IGNORE if rule["name"] == "sgd" else 1
    return cntk.learning_parameter_schedule(rate, minibatch_size=reference)


def _momentum(value):
    return cntk.momentum_schedule(value, minibatch_size=cntk.learners.IGNORE)
