"""The update of weights in TensorFlow, by the rules of ``workers.trainer.optimizer``, operator by operator.

``advance`` is called before each step, outside of the ``tf.function``; ``apply`` while that is traced.
"""

import math
from typing import List, Sequence

import tensorflow as tf

from workers.trainer import optimizer as rules
from workers.trainer.signatures import Rule


def make(rule: Rule, variables: Sequence[tf.Variable]) -> "Optimizer":
    """Return the optimiser of ``variables``, with its state; to be called in the strategy's scope."""
    return (Sgd if rule["name"] == "sgd" else Adam)(rule, variables)


class Optimizer(object):
    """What all have: ``state``, its variables that are as large as the weights."""

    def __init__(self, rule: Rule, variables: Sequence[tf.Variable], copies: int) -> None:
        self.rule = rule
        self.slots = [[tf.Variable(tf.zeros(v.shape), trainable=False) for v in variables] for _ in range(copies)]
        self._steps = 0
        # What changes from step to step and is no part of the graph; None where nothing does.
        self._numbers = None

    @property
    def state(self) -> List[tf.Variable]:
        return [variable for slot in self.slots for variable in slot]

    def advance(self) -> None:
        """Prepare the next step."""
        self._steps += 1
        if self._numbers is not None:
            self._numbers.assign(self._of_step(self._steps))

    def _of_step(self, step):
        """Return the numbers of a step."""
        raise NotImplementedError


class Sgd(Optimizer):
    """With momentum and coupled decay."""

    def __init__(self, rule: Rule, variables: Sequence[tf.Variable]) -> None:
        super().__init__(rule, variables, copies=1)
        if not rules.is_constant(rule):
            self._numbers = tf.Variable(self._of_step(1), trainable=False)

    def _of_step(self, step):
        return [rules.rate(self.rule, step)]

    def apply(self, variables: Sequence[tf.Variable], gradients: Sequence[tf.Tensor]) -> None:
        rate = self.rule["learning_rate"] if self._numbers is None else self._numbers[0]
        for variable, momentum, gradient in zip(variables, self.slots[0], gradients):
            tf.raw_ops.ResourceApplyMomentum(
                var=variable.handle,
                accum=momentum.handle,
                lr=rate,
                grad=gradient + rules.weight_decay(self.rule, variable.shape.rank) * variable,
                momentum=self.rule["momentum"],
            )


class Adam(Optimizer):
    """With coupled decay, or (``adamw``) with decay of its own.

    TensorFlow's operator adds epsilon to the root of the second moment before that is corrected: it is given an epsilon
    by which the sum is PyTorch's.
    """

    def __init__(self, rule: Rule, variables: Sequence[tf.Variable]) -> None:
        super().__init__(rule, variables, copies=2)
        self._numbers = tf.Variable(self._of_step(1), trainable=False)

    def _of_step(self, step):
        first, second = self.rule["betas"]
        root = math.sqrt(1.0 - second**step)
        return [rules.rate(self.rule, step), first**step, second**step, self.rule["epsilon"] * root]

    def apply(self, variables: Sequence[tf.Variable], gradients: Sequence[tf.Tensor]) -> None:
        rate, first_power, second_power, epsilon = tf.unstack(self._numbers)
        for variable, mean, square, gradient in zip(variables, self.slots[0], self.slots[1], gradients):
            decay = rules.weight_decay(self.rule, variable.shape.rank)
            if decay and self.rule["name"] == "adamw":
                tf.raw_ops.AssignVariableOp(resource=variable.handle, value=variable * (1.0 - rate * decay))
            elif decay:
                gradient = gradient + decay * variable
            tf.raw_ops.ResourceApplyAdam(
                var=variable.handle,
                m=mean.handle,
                v=square.handle,
                beta1_power=first_power,
                beta2_power=second_power,
                lr=rate,
                beta1=self.rule["betas"][0],
                beta2=self.rule["betas"][1],
                epsilon=epsilon,
                grad=gradient,
            )
