"""A weight whose gradients are given, trained in ``amp-fp16``: ``python loss_scaling.py FRAMEWORK RULE GRADIENTS``.

Prints, as JSON, [first factor, growth, backoff, steps to growth] and [weight, factor] after each step.
"""

import json
import sys

from workers.trainer.base import optimizer as rules

# So that the factor grows here, too.
STEPS_TO_GROWTH = 3


def pytorch(rule, gradients):
    import torch

    from workers.trainer.frameworks.pytorch import optimizers, precision

    device = torch.device("cpu")
    weight, casting = torch.nn.Parameter(torch.tensor([1.0])), precision.Casting("amp-fp16", device)
    optimizer, scaler = optimizers.make(rule, [weight]), casting._scaler
    constants = [scaler.get_scale(), scaler.get_growth_factor(), scaler.get_backoff_factor()]
    constants.append(scaler.get_growth_interval())
    scaler.set_growth_interval(STEPS_TO_GROWTH)
    found = []
    for gradient in gradients:
        optimizer.zero_grad()
        casting.backward((weight * gradient).sum(), None)
        casting.update(optimizer)
        found.append([weight.item(), scaler.get_scale()])
    return constants, found


def tensorflow(rule, gradients):
    import tensorflow as tf

    from workers.trainer.base.updates import Update
    from workers.trainer.frameworks.tensorflow import minimizer, precision, single

    constants = [precision.FIRST_SCALE, precision.GROWTH, precision.BACKOFF, precision.STEPS_TO_GROWTH]
    precision.STEPS_TO_GROWTH = STEPS_TO_GROWTH
    weight = tf.Variable([1.0])
    update = Update("all", lambda gradient: tf.reduce_sum(weight * gradient), [weight], rule)
    trained = minimizer.Minimizer(update, single.Strategy(), scaled=True)
    found = []
    for gradient in gradients:
        trained(tf.constant(gradient))
        found.append([float(weight.numpy()[0]), float(trained._scale.factor.numpy())])
    return constants, found


if __name__ == "__main__":
    compute = {"pytorch": pytorch, "tensorflow": tensorflow}[sys.argv[1]]
    print(json.dumps(compute(rules.complete(json.loads(sys.argv[2])), json.loads(sys.argv[3]))))
