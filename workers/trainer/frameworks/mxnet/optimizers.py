"""The update of weights in MXNet, by the rules of ``workers.trainer.base.optimizer``."""

import math
from typing import Any, Optional, Sequence

from workers.trainer.base import optimizer as rules
from workers.trainer.base.signatures import Rule
from workers.trainer.frameworks.mxnet.library import mx


def make(rule: Rule, parameters: Sequence[Any], **options: Any) -> mx.optimizer.Optimizer:
    """Return the optimiser of Gluon's ``parameters``; ``options`` are MXNet's own, such as ``rescale_grad``."""
    if not rule["decay_vectors"]:
        for parameter in parameters:
            parameter.wd_mult = float(len(parameter.shape) > 1)
    if not rules.is_constant(rule):
        options["lr_scheduler"] = Rate(rule)
    options.update(learning_rate=rule["learning_rate"], wd=rule["weight_decay"])
    if rule["name"] == "sgd":
        constant = rules.is_constant(rule)
        return (mx.optimizer.SGD if constant else Sgd)(momentum=rule["momentum"], **options)
    return Adam(rule["betas"], rule["epsilon"], rule["name"] == "adamw", **options)


def update(trainer: Any, divisor: int, limit: Optional[float], contexts: Sequence[Any], servers_update: bool) -> None:
    """Exchange the gradients and update the weights, as ``trainer.step(divisor)``, with the norm of the averaged
    gradients limited. Where the servers update, each of this worker's gradients is an update, and is limited itself.
    """
    if limit is None:
        trainer.step(divisor)
        return
    if not servers_update:
        trainer.allreduce_grads()
    trained = [parameter for parameter in trainer._params if parameter.grad_req != "null"]
    for context in contexts:
        gradients = [parameter.grad(context) for parameter in trained]
        squares = mx.nd.multi_sum_sq(*gradients, num_arrays=len(gradients))
        # What they are multiplied by later, which makes them averages.
        norm = trainer._scale / divisor * mx.nd.sqrt(mx.nd.sum(squares))
        share = mx.nd.minimum(limit / (norm + rules.NORM_EPSILON), 1.0)
        for gradient in gradients:
            gradient *= share
    (trainer.step if servers_update else trainer.update)(divisor)


class Rate(mx.lr_scheduler.LRScheduler):
    """The rate of each step."""

    def __init__(self, rule: Rule) -> None:
        super(Rate, self).__init__(rule["learning_rate"])
        self._rule = rule

    def __call__(self, num_update: int) -> float:
        # It is also asked before the first step.
        return rules.rate(self._rule, max(1, num_update))


class Sgd(mx.optimizer.Optimizer):
    """With momentum, coupled decay and a rate that changes.

    MXNet's momentum holds updates, PyTorch's gradients. Where the rate changes, what MXNet holds is rescaled to the new
    one (Goyal et al., "Accurate, Large Minibatch SGD", 2017, section 3: momentum correction).
    """

    def __init__(self, momentum: float, **options: Any) -> None:
        super(Sgd, self).__init__(**options)
        self._momentum = momentum
        self._rates = {}

    def create_state(self, index: int, weight: Any) -> Any:
        return mx.nd.zeros(weight.shape, weight.context, dtype=weight.dtype)

    def update(self, index: int, weight: Any, grad: Any, state: Any) -> None:
        self._update_count(index)
        rate, where = self._get_lr(index), (index, weight.context)
        # Of the first update here too: after a resumption it is not the training's first.
        before = self._rates.get(where, self.lr_scheduler(self.num_update - 1))
        # What is held from a rate of 0 on is nothing.
        rescaled = rate / before if before else 1.0
        self._rates[where] = rate
        mx.nd.sgd_mom_update(
            weight,
            grad,
            state,
            out=weight,
            lr=rate,
            wd=self._get_wd(index),
            momentum=self._momentum * rescaled,
            rescale_grad=self.rescale_grad,
        )


class Adam(mx.optimizer.Optimizer):
    """With coupled decay, or with decay of its own (``decoupled``).

    MXNet's own adds epsilon to the root of the second moment before that is corrected: its operator is given an epsilon
    by which the sum is PyTorch's.
    """

    def __init__(self, betas: Sequence[float], epsilon: float, decoupled: bool, **options: Any) -> None:
        super(Adam, self).__init__(**options)
        self._betas = tuple(betas)
        self._epsilon = epsilon
        self._decoupled = decoupled

    def create_state(self, index: int, weight: Any) -> Any:
        return tuple(mx.nd.zeros(weight.shape, weight.context, dtype=weight.dtype) for _ in self._betas)

    def update(self, index: int, weight: Any, grad: Any, state: Any) -> None:
        self._update_count(index)
        step, rate, decay = self._index_update_count[index], self._get_lr(index), self._get_wd(index)
        first, second = self._betas
        root = math.sqrt(1.0 - second**step)
        if self._decoupled:
            weight *= 1.0 - rate * decay
            decay = 0.0
        mean, square = state
        mx.nd.adam_update(
            weight,
            grad,
            mean,
            square,
            out=weight,
            lr=rate * root / (1.0 - first**step),
            wd=decay,
            beta1=first,
            beta2=second,
            epsilon=self._epsilon * root,
            rescale_grad=self.rescale_grad,
        )
