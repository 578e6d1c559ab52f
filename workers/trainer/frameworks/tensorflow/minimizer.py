"""One update of a step in TensorFlow: a ``tf.function`` of loss, gradients, exchange and optimiser."""

import functools
from typing import Any, List, Tuple

import tensorflow as tf

from workers.trainer.base import optimizer as rules
from workers.trainer.base.failure import TrainerError
from workers.trainer.base.signatures import Array
from workers.trainer.base.updates import Update
from workers.trainer.frameworks.tensorflow import memory, optimizers, precision, scopes


class Minimizer(object):
    """Carries out ``update``, one of ``workers.trainer.base.updates``, for all ranks of this process.

    To be made in the strategy's scope. ``alone``: whether a step has no other update: the operators of several are told
    apart by a name scope of each. ``gradients``: {name: ``ownership.Gradient``} of a step, once it was traced.
    ``compiled``: whether XLA compiles it, as one piece. ``scaled``: whether its loss is, see ``precision.Scale``.
    """

    def __init__(
        self, update: Update, strategy: Any, compiled: bool = False, scaled: bool = False, alone: bool = True
    ) -> None:
        self.variables = update.parameters
        self.times = update.times
        self.optimizer = optimizers.make(rules.complete(update.optimizer), self.variables)
        self.gradients = {}
        self._loss = update.loss
        self._strategy = strategy
        self._losses = None
        self._scale = precision.Scale() if scaled else None
        # Nothing that the function holds holds it: it goes with this object.
        train = functools.partial(
            _train, self._loss, self.variables, self.optimizer, strategy, self.gradients, self._scale
        )
        if not alone:
            train = functools.partial(_within, scopes.OF + update.name, train)
        # Nothing in a model chooses by a tensor, so AutoGraph would only trace the same graph three times as slowly.
        self._function = tf.function(lambda batch: strategy.run(train, batch), autograph=False, jit_compile=compiled)

    @property
    def scaling(self) -> List[tf.Variable]:
        """The variables by which the loss is scaled; none where it is not."""
        return [] if self._scale is None else [self._scale.factor, self._scale.steady, self._scale.left_out]

    def rehearse(self, batch: Any) -> None:
        """Compile the update for batches like ``batch``, by one whose changes are taken back.

        Raises:
            TrainerError: ``unsupported``, XLA lacks an operator of this model.
        """
        try:
            variables = self._function.get_concrete_function(batch).graph.variables
            before = [tf.identity(variable) for variable in variables]
            self._function(batch)
        except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError) as error:
            raise TrainerError("unsupported", "XLA cannot compile this model: %s" % error.message.split("\n")[0])
        for variable, value in zip(variables, before):
            variable.assign(value)

    def __call__(self, batch: Any) -> None:
        """Queue the update by ``batch``, as the strategy's ``run`` takes it."""
        self.optimizer.advance()
        self._losses = self._function(batch)

    def compute(self, batch: Any) -> Tuple[float, List[Array]]:
        """Return (loss, gradients) as arrays, without an update, of the only rank of this process.

        Not in a ``tf.function``: that of the step, which also updates, would be traced twice.
        """
        with self._strategy.scope(), tf.GradientTape() as tape:
            loss = self._loss(batch)
            target = loss if self._scale is None else self._scale.scaled(loss)
        found = [wide(tf.convert_to_tensor(gradient)) for gradient in tape.gradient(target, self.variables)]
        if self._scale is not None:
            found = [gradient / self._scale.factor.numpy() for gradient in found]
        return float(loss.numpy()), found

    def losses(self) -> List[float]:
        """Return the last loss of each rank of this process, once the update is done; none before the first one."""
        if self._losses is None:
            return []
        return [float(loss.numpy()) for loss in self._strategy.of_ranks(self._losses)]

    def graph(self, batch: Any) -> Any:
        """Return the graph that it is traced to."""
        return self._function.get_concrete_function(batch).graph


def wide(tensor: Any) -> Array:
    """Return a tensor or variable as an array, bfloat16 in single precision, which holds all of its numbers."""
    array = tensor.numpy()
    return array.astype("float32") if tensor.dtype == tf.bfloat16 else array


def _train(loss_of, variables, optimizer, strategy, noted, scale, batch):
    """One rank's update; return its loss. ``noted``: where its gradients are written down."""
    with tf.GradientTape() as tape:
        loss = loss_of(batch)
        target = loss if scale is None else scale.scaled(loss)
    with tf.name_scope(scopes.BACKWARD):
        gradients = [_dense(gradient) for gradient in tape.gradient(target, variables)]
        noted.update(memory.gradients(gradients))
    with tf.name_scope(scopes.EXCHANGE):
        gradients = strategy.mean(gradients)
    with tf.name_scope(scopes.UPDATE):
        if scale is None:
            optimizer.apply(variables, gradients)
        else:
            scale.apply(functools.partial(optimizer.apply, variables), gradients)
    return loss


def _within(scope, train, batch):
    with tf.name_scope(scope):
        return train(batch)


def _dense(gradient):
    """Return a gradient as a tensor, as other frameworks have that of an embedding, made under its layer's name."""
    if isinstance(gradient, tf.IndexedSlices):
        with tf.name_scope(scopes.layer_of(gradient.values.op.name)):
            return tf.convert_to_tensor(gradient)
    return gradient
