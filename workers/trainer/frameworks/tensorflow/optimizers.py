"""The update of weights in TensorFlow, by the rules of ``workers.trainer.base.optimizer``, operator by operator.

``advance`` is called before each step, outside of the ``tf.function``; ``apply`` while that is traced. Weights and
state in bfloat16 are updated in single precision and rounded: TensorFlow's operators would round the numbers of the
rule, of which 0.999 is 1 in bfloat16.
"""

import math
from typing import List, Optional, Sequence

import tensorflow as tf

from workers.trainer.base import optimizer as rules
from workers.trainer.base.signatures import Rule


def make(rule: Rule, variables: Sequence[tf.Variable]) -> "Optimizer":
    """Return the optimiser of ``variables``, with its state; to be called in the strategy's scope."""
    return (Sgd if rule["name"] == "sgd" else Adam)(rule, variables)


class Optimizer(object):
    """What all have: ``state``, its variables that are as large as the weights."""

    def __init__(self, rule: Rule, variables: Sequence[tf.Variable], copies: int) -> None:
        self.rule = rule
        self.slots = [
            [tf.Variable(tf.zeros(v.shape, v.dtype), trainable=False) for v in variables] for _ in range(copies)
        ]
        self.steps = 0
        # What changes from step to step and is no part of the graph; None where nothing does.
        self._numbers = None

    @property
    def state(self) -> List[tf.Variable]:
        return [variable for slot in self.slots for variable in slot]

    def advance(self) -> None:
        """Prepare the next step."""
        self.steps += 1
        if self._numbers is not None:
            self._numbers.assign(self._of_step(self.steps))

    def apply(
        self, variables: Sequence[tf.Variable], gradients: Sequence[tf.Tensor], left_out: Optional[tf.Tensor] = None
    ) -> None:
        """Update ``variables``. ``left_out``: how many of the steps so far had no update, where some have none."""
        self._update(variables, self._limited(gradients), left_out)

    def _limited(self, gradients):
        limit = self.rule["gradient_norm_limit"]
        if limit is None:
            return gradients
        squares = [tf.reduce_sum(tf.square(_single(gradient))) for gradient in gradients]
        share = tf.minimum(1.0, limit / (tf.sqrt(tf.add_n(squares)) + rules.NORM_EPSILON))
        return [gradient * tf.cast(share, gradient.dtype) for gradient in gradients]

    def _update(self, variables, gradients, left_out):
        """See ``apply``; the gradients are limited."""
        raise NotImplementedError

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

    def _update(self, variables, gradients, left_out):
        rate = self.rule["learning_rate"] if self._numbers is None else self._numbers[0]
        for variable, momentum, gradient in zip(variables, self.slots[0], gradients):
            if variable.dtype != tf.float32:
                self._wide(variable, momentum, gradient, rate)
                continue
            tf.raw_ops.ResourceApplyMomentum(
                var=variable.handle,
                accum=momentum.handle,
                lr=rate,
                grad=gradient + rules.weight_decay(self.rule, variable.shape.rank) * variable,
                momentum=self.rule["momentum"],
            )

    def _wide(self, variable, momentum, gradient, rate):
        weight = _single(variable)
        gradient = _single(gradient) + rules.weight_decay(self.rule, variable.shape.rank) * weight
        change = self.rule["momentum"] * _single(momentum) + gradient
        _assign(momentum, change)
        _assign(variable, weight - rate * change)


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

    def _update(self, variables, gradients, left_out):
        rate, first_power, second_power, epsilon = tf.unstack(self._numbers)
        if left_out is not None:
            # Moments know of the updates alone; the rate is that of the step.
            first, second = self.rule["betas"]
            first_power, second_power = first_power / first**left_out, second_power / second**left_out
            epsilon = self.rule["epsilon"] * tf.sqrt(1.0 - second_power)
        for variable, mean, square, gradient in zip(variables, self.slots[0], self.slots[1], gradients):
            decay = rules.weight_decay(self.rule, variable.shape.rank)
            if variable.dtype != tf.float32:
                self._wide(variable, mean, square, gradient, decay, (rate, first_power, second_power, epsilon))
                continue
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

    def _wide(self, variable, mean, square, gradient, decay, numbers):
        rate, first_power, second_power, epsilon = numbers
        first, second = self.rule["betas"]
        weight, gradient = _single(variable), _single(gradient)
        if self.rule["name"] == "adamw":
            weight = weight * (1.0 - rate * decay)
        else:
            gradient = gradient + decay * weight
        mean_now = first * _single(mean) + (1.0 - first) * gradient
        square_now = second * _single(square) + (1.0 - second) * tf.square(gradient)
        _assign(mean, mean_now)
        _assign(square, square_now)
        height = rate * tf.sqrt(1.0 - second_power) / (1.0 - first_power)
        _assign(variable, weight - height * mean_now / (tf.sqrt(square_now) + epsilon))


def _single(tensor):
    return tf.cast(tensor, tf.float32)


def _assign(variable, value):
    """Give a rank's own copy a value, rounded to its type."""
    tf.raw_ops.AssignVariableOp(resource=variable.handle, value=tf.cast(value, variable.dtype))
